package httpexec

import (
	"mime"
	"net/http"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// textOf is the body of an answer in UTF-8, as its Content-Type names the charset. A body of a charset that is not
// known stays as it is.
func textOf(header http.Header, body []byte) string {
	if charset := charsets[charsetOf(header)]; charset != nil {
		if text, err := charset.NewDecoder().Bytes(body); err == nil {
			return string(text)
		}
	}
	return string(body)
}

// charsetOf is what the Content-Type says, in the spelling of charsets; "" if it does not say it.
func charsetOf(header http.Header) string {
	_, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	name := strings.ToLower(strings.TrimSpace(parameters["charset"]))
	if number, ok := strings.CutPrefix(name, "iso8859"); ok {
		return "iso-8859" + number
	}
	if number, ok := strings.CutPrefix(strings.TrimPrefix(name, "x-"), "cp125"); ok {
		return "windows-125" + number
	}
	return name
}

// bytesOf is how many bytes of an answer have at least that many bytes of text, if it is so long.
func bytesOf(header http.Header, text int64) int64 {
	if strings.HasPrefix(charsetOf(header), "utf-16") {
		return 2 * text
	}
	return text
}

// charsets are UTF-16 and those with one byte for each character. Names and meanings are those of browsers (WHATWG,
// Encoding): iso-8859-1 is windows-1252. The charsets of East Asia are left out: their tables would add 0.6 MB to each
// program with package dts.
var charsets = map[string]encoding.Encoding{
	"utf-16":   unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), // a mark says the order, if there is one
	"utf-16le": unicode.UTF16(unicode.LittleEndian, unicode.UseBOM),
	"utf-16be": unicode.UTF16(unicode.BigEndian, unicode.UseBOM),

	"ascii": charmap.Windows1252, "us-ascii": charmap.Windows1252,
	"l1": charmap.Windows1252, "latin1": charmap.Windows1252, "iso-8859-1": charmap.Windows1252,
	"l2": charmap.ISO8859_2, "latin2": charmap.ISO8859_2, "iso-8859-2": charmap.ISO8859_2,
	"l3": charmap.ISO8859_3, "latin3": charmap.ISO8859_3, "iso-8859-3": charmap.ISO8859_3,
	"l4": charmap.ISO8859_4, "latin4": charmap.ISO8859_4, "iso-8859-4": charmap.ISO8859_4,
	"l5": charmap.Windows1254, "latin5": charmap.Windows1254, "iso-8859-9": charmap.Windows1254,
	"l6": charmap.ISO8859_10, "latin6": charmap.ISO8859_10, "iso-8859-10": charmap.ISO8859_10,
	"l9": charmap.ISO8859_15, "latin-9": charmap.ISO8859_15, "iso-8859-15": charmap.ISO8859_15,

	"iso-8859-5": charmap.ISO8859_5, "cyrillic": charmap.ISO8859_5,
	"iso-8859-6": charmap.ISO8859_6, "arabic": charmap.ISO8859_6,
	"iso-8859-7": charmap.ISO8859_7, "greek": charmap.ISO8859_7,
	"iso-8859-8": charmap.ISO8859_8, "hebrew": charmap.ISO8859_8,
	"iso-8859-11": charmap.Windows874, "tis-620": charmap.Windows874, "windows-874": charmap.Windows874,
	"iso-8859-13": charmap.ISO8859_13, "iso-8859-14": charmap.ISO8859_14, "iso-8859-16": charmap.ISO8859_16,

	"windows-1250": charmap.Windows1250, "windows-1251": charmap.Windows1251, "windows-1252": charmap.Windows1252,
	"windows-1253": charmap.Windows1253, "windows-1254": charmap.Windows1254, "windows-1255": charmap.Windows1255,
	"windows-1256": charmap.Windows1256, "windows-1257": charmap.Windows1257, "windows-1258": charmap.Windows1258,

	"koi8": charmap.KOI8R, "koi8-r": charmap.KOI8R, "koi8-u": charmap.KOI8U,
	"ibm866": charmap.CodePage866, "cp866": charmap.CodePage866,
	"macintosh": charmap.Macintosh, "x-mac-cyrillic": charmap.MacintoshCyrillic,
}
