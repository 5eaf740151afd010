package printer

// The colours, as terminals switch them on. Reset switches them off.
const (
	Red    = "\x1b[31m"
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	Cyan   = "\x1b[36m"
	Grey   = "\x1b[90m"
	Reset  = "\x1b[0m"
)

// statusColours maps a status to its colour. A status that needs no attention has none.
var statusColours = map[Status]string{
	"succeeded": Green, "alive": Green,
	"failed": Red, "timeout": Red, "lost": Red, "dead": Red,
	"running": Cyan, "queued": Cyan,
	"cancelled": Yellow, "paused": Yellow, "draining": Yellow, "cordoned": Yellow,
	"ended":  Grey,
	"proved": Green, "not proved": Red,
	"error": Red, "warning": Yellow, "bad": Red, "warn": Yellow,
	"missed": Red, "skipped_overlap": Yellow, "replaced": Yellow, "excluded": Grey,
}

// Coloured returns text in a colour; "" is no colour.
func (p *Printer) Coloured(colour, text string) string {
	if colour == "" || !p.OutIsTerminal || !p.Colour {
		return text
	}
	return colour + text + Reset
}

// StatusText returns text in the colour of a status.
func (p *Printer) StatusText(status Status, text string) string {
	return p.Coloured(statusColours[status], text)
}

// StatusWord returns a status in its colour.
func (p *Printer) StatusWord(status Status) string { return p.StatusText(status, Flat(string(status))) }

func (p *Printer) colourCell(cell any, text string) string {
	if status, ok := cell.(Status); ok {
		return p.StatusText(status, text)
	}
	if strip, ok := cell.(Strip); ok {
		return p.colourStrip(strip)
	}
	return text
}
