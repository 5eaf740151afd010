package grpccall

import (
	"iter"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// weigher estimates how much memory protobuf takes for a serialized message. An empty message has two bytes on the wire
// and takes hundreds in memory. It reads the wire and makes nothing.
type weigher struct {
	message, value int              // bytes that a message, and a value in it, take besides their content
	types          *dynamicpb.Types // of what google.protobuf.Any may hold; nil if that stays as it is
	names          bool             // whether the message is written as JSON, where names take room
	limit          int              // beyond it, nothing more is read
	sum            int
	longest        map[protoreflect.FullName]int // of the names of an enum's values
}

// weigh adds a message, which has n bytes on the wire, and reports whether the sum is within the limit.
func (w *weigher) weigh(wire []byte, of protoreflect.MessageDescriptor) bool {
	w.sum += 2 * len(wire)
	w.read(wire, of)
	return w.sum <= w.limit
}

// read adds the values of a message, until it ends, and returns what follows. What cannot be read ends it as well: then
// protobuf refuses the message.
func (w *weigher) read(wire []byte, of protoreflect.MessageDescriptor) (rest []byte) {
	w.sum += w.message
	if w.types != nil && of.FullName() == "google.protobuf.Any" {
		w.readAny(wire)
	}
	for len(wire) > 0 && w.sum <= w.limit {
		number, form, n := protowire.ConsumeTag(wire)
		if n < 0 || form == protowire.EndGroupType {
			return wire[max(n, 0):]
		}
		wire = wire[n:]
		field := of.Fields().ByNumber(number)
		if form == protowire.StartGroupType && field != nil && field.Kind() == protoreflect.GroupKind {
			w.addNames(field, 1)
			wire = w.read(wire, field.Message())
			continue
		}
		if n = protowire.ConsumeFieldValue(number, form, wire); n < 0 {
			return nil
		}
		if field != nil {
			w.addField(field, form, wire[:n])
		}
		wire = wire[n:]
	}
	return nil
}

// readAny adds what a google.protobuf.Any holds.
func (w *weigher) readAny(wire []byte) {
	const typeURL, value = 1, 2
	var url string
	for content := range contents(wire, typeURL) {
		url = string(content)
	}
	found, err := w.types.FindMessageByURL(url)
	if err != nil {
		return
	}
	for content := range contents(wire, value) {
		w.read(content, found.Descriptor())
	}
}

// addField adds a field that is no group. A field with a length has a message, a text, or numbers that are packed.
func (w *weigher) addField(field protoreflect.FieldDescriptor, form protowire.Type, value []byte) {
	if form != protowire.BytesType {
		w.addValues(field, 1)
		return
	}
	content, _ := protowire.ConsumeBytes(value)
	switch field.Kind() {
	case protoreflect.MessageKind:
		w.addNames(field, 1)
		w.read(content, field.Message())
	case protoreflect.StringKind, protoreflect.BytesKind:
		w.addValues(field, 1)
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		w.addValues(field, len(content)/4)
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		w.addValues(field, len(content)/8)
	default:
		n := 0
		for _, b := range content {
			n += int(^b >> 7) // the last byte of a varint has no such bit
		}
		w.addValues(field, n)
	}
}

func (w *weigher) addValues(field protoreflect.FieldDescriptor, n int) {
	w.sum += n * w.value
	w.addNames(field, n)
}

// addNames adds the names that n values of a field have in JSON.
func (w *weigher) addNames(field protoreflect.FieldDescriptor, n int) {
	if !w.names {
		return
	}
	w.sum += len(field.JSONName())
	enum := field.Enum()
	if enum == nil {
		return
	}
	longest, known := w.longest[enum.FullName()]
	if !known {
		for i := range enum.Values().Len() {
			longest = max(longest, len(enum.Values().Get(i).Name()))
		}
		w.longest[enum.FullName()] = longest
	}
	w.sum += n * longest
}

// wellFormed returns an error unless a message consists of fields. It does not look into them.
func wellFormed(wire []byte) error {
	for len(wire) > 0 {
		_, _, n := protowire.ConsumeField(wire)
		if n < 0 {
			return protowire.ParseError(n)
		}
		wire = wire[n:]
	}
	return nil
}

// contents are those of the fields of a message that have this number, and a length. Of a field that occurs once, the
// last one counts. They end where the message is malformed.
func contents(wire []byte, number protowire.Number) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(wire) > 0 {
			found, form, tag := protowire.ConsumeTag(wire)
			n := protowire.ConsumeFieldValue(found, form, wire[max(tag, 0):])
			if tag < 0 || n < 0 {
				return
			}
			if found == number && form == protowire.BytesType {
				if content, _ := protowire.ConsumeBytes(wire[tag:]); !yield(content) {
					return
				}
			}
			wire = wire[tag+n:]
		}
	}
}
