package httpexec

import (
	"encoding/binary"
	"mime"
	"net/http"
	"strings"
	"unicode/utf16"
)

// textOf is the body of an answer in UTF-8, as its Content-Type names the charset. A body of a charset that is not
// known stays as it is. Names and meanings are those of browsers (WHATWG, Encoding): iso-8859-1 is windows-1252.
func textOf(header http.Header, body []byte) string {
	switch charsetOf(header) {
	case "iso-8859-1", "iso8859-1", "latin1", "l1", "us-ascii", "ascii", "windows-1252", "cp1252":
		return textOfBytes(body, &windows1252)
	case "iso-8859-15", "iso8859-15", "latin-9", "l9":
		return textOfBytes(body, &latin9)
	case "utf-16", "utf-16le":
		return textOfUnits(body, binary.LittleEndian)
	case "utf-16be":
		return textOfUnits(body, binary.BigEndian)
	}
	return string(body)
}

// charsetOf is what the Content-Type says, in lower case; "" if it does not say it.
func charsetOf(header http.Header) string {
	_, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSpace(parameters["charset"]))
}

// bytesOf is how many bytes of an answer have at least that many bytes of text, if it is so long.
func bytesOf(header http.Header, text int64) int64 {
	if strings.HasPrefix(charsetOf(header), "utf-16") {
		return 2 * text
	}
	return text
}

// windows1252 and latin9 have the characters from 0x80 to 0xBF. All others of these charsets are those of Unicode.
var windows1252, latin9 = [64]rune([]rune(
	"\u20ac\u0081\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\u008d\u017d\u008f" +
		"\u0090\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\u009d\u017e\u0178" +
		"\u00a0\u00a1\u00a2\u00a3\u00a4\u00a5\u00a6\u00a7\u00a8\u00a9\u00aa\u00ab\u00ac\u00ad\u00ae\u00af" +
		"\u00b0\u00b1\u00b2\u00b3\u00b4\u00b5\u00b6\u00b7\u00b8\u00b9\u00ba\u00bb\u00bc\u00bd\u00be\u00bf")),
	[64]rune([]rune(
		"\u0080\u0081\u0082\u0083\u0084\u0085\u0086\u0087\u0088\u0089\u008a\u008b\u008c\u008d\u008e\u008f" +
			"\u0090\u0091\u0092\u0093\u0094\u0095\u0096\u0097\u0098\u0099\u009a\u009b\u009c\u009d\u009e\u009f" +
			"\u00a0\u00a1\u00a2\u00a3\u20ac\u00a5\u0160\u00a7\u0161\u00a9\u00aa\u00ab\u00ac\u00ad\u00ae\u00af" +
			"\u00b0\u00b1\u00b2\u00b3\u017d\u00b5\u00b6\u00b7\u017e\u00b9\u00ba\u00bb\u0152\u0153\u0178\u00bf"))

// textOfBytes reads a charset with one byte for each character.
func textOfBytes(body []byte, high *[64]rune) string {
	var text strings.Builder
	for _, b := range body {
		if b >= 0x80 && b < 0xc0 {
			text.WriteRune(high[b-0x80])
		} else {
			text.WriteRune(rune(b))
		}
	}
	return text.String()
}

// textOfUnits reads UTF-16. A byte order mark says the order, in place of order; a half unit at the end is left out.
func textOfUnits(body []byte, order binary.ByteOrder) string {
	if len(body) >= 2 {
		switch binary.BigEndian.Uint16(body) {
		case 0xfeff:
			order, body = binary.BigEndian, body[2:]
		case 0xfffe:
			order, body = binary.LittleEndian, body[2:]
		}
	}
	units := make([]uint16, len(body)/2)
	for i := range units {
		units[i] = order.Uint16(body[2*i:])
	}
	return string(utf16.Decode(units))
}
