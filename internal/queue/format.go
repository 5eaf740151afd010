package queue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dts-sched/dts/internal/route"
	"github.com/dts-sched/dts/internal/task"
)

// Fields of asynq's TaskMessage, as in internal/proto/asynq.proto of asynq 0.26.
const (
	fieldType         protowire.Number = 1
	fieldPayload      protowire.Number = 2
	fieldID           protowire.Number = 3
	fieldQueue        protowire.Number = 4
	fieldRetry        protowire.Number = 5
	fieldError        protowire.Number = 7
	fieldTimeout      protowire.Number = 8
	fieldUniqueKey    protowire.Number = 10
	fieldLastFailedAt protowire.Number = 11
	fieldRetention    protowire.Number = 12
)

// message is a delivery as asynq stores it, as far as DTS uses it.
type message struct {
	taskType  string
	payload   []byte
	id        string
	queue     string // asynq's name
	retry     int    // how often asynq's servers deliver it again
	timeout   time.Duration
	uniqueKey string // key that asynq's client locked; "" for none
	failure   string // why it failed the last time; encode leaves it out
}

// encode returns the message in asynq's encoding, which is protobuf.
func (m message) encode() []byte {
	b := make([]byte, 0, len(m.taskType)+len(m.payload)+len(m.id)+len(m.queue)+24)
	b = appendText(b, fieldType, m.taskType)
	b = appendText(b, fieldPayload, string(m.payload))
	b = appendText(b, fieldID, m.id)
	b = appendText(b, fieldQueue, m.queue)
	b = appendNumber(b, fieldRetry, int64(m.retry))
	seconds := (m.timeout + time.Second - 1) / time.Second // asynq has whole seconds
	b = appendNumber(b, fieldTimeout, int64(seconds))
	b = appendText(b, fieldUniqueKey, m.uniqueKey)
	return appendNumber(b, fieldRetention, int64(handledRetention/time.Second))
}

// appendText appends a string or bytes. Protobuf leaves out empty ones.
func appendText(b []byte, field protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, text)
}

// appendNumber appends an integer. Protobuf leaves out 0.
func appendNumber(b []byte, field protowire.Number, n int64) []byte {
	if n == 0 {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(n))
}

// decode reads a message in asynq's encoding. It skips fields that DTS does not use.
func decode(encoded string) (message, error) {
	var m message
	err := eachField([]byte(encoded), func(field protowire.Number, value []byte, number uint64, _ []byte) {
		switch field {
		case fieldType:
			m.taskType = string(value)
		case fieldPayload:
			m.payload = value
		case fieldID:
			m.id = string(value)
		case fieldQueue:
			m.queue = string(value)
		case fieldRetry:
			m.retry = int(number)
		case fieldTimeout:
			m.timeout = time.Duration(number) * time.Second
		case fieldUniqueKey:
			m.uniqueKey = string(value)
		case fieldError:
			m.failure = string(value)
		}
	})
	return m, err
}

// withError returns an encoded message with the error of its last failure in place of any other. All other fields stay, also
// those that DTS does not know, in the order of their numbers, as asynq writes them.
func withError(encoded, text string, at time.Time) ([]byte, error) {
	rest := []byte(encoded)
	out := make([]byte, 0, len(rest)+len(text)+16)
	addError := func() { out = appendText(out, fieldError, strings.ToValidUTF8(text, "\uFFFD")) }
	addTime := func() { out = appendNumber(out, fieldLastFailedAt, at.Unix()) }
	last := protowire.Number(0)
	pass := func(field protowire.Number) { // adds the fields between last and field
		if last < fieldError && field > fieldError {
			addError()
		}
		if last < fieldLastFailedAt && field > fieldLastFailedAt {
			addTime()
		}
		last = max(last, field)
	}
	err := eachField(rest, func(field protowire.Number, _ []byte, _ uint64, raw []byte) {
		if field == fieldError || field == fieldLastFailedAt {
			return
		}
		pass(field)
		out = append(out, raw...)
	})
	pass(protowire.MaxValidNumber)
	return out, err
}

// eachField calls visit for every field of an encoded message: with its value if it has bytes, its number if it has one,
// and the field as it is encoded.
func eachField(b []byte, visit func(field protowire.Number, value []byte, number uint64, raw []byte)) error {
	for len(b) > 0 {
		field, kind, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return fmt.Errorf("invalid message: %w", protowire.ParseError(tag))
		}
		var value []byte
		var number uint64
		n := 0
		switch kind {
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(b[tag:])
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b[tag:])
		default:
			n = protowire.ConsumeFieldValue(field, kind, b[tag:])
		}
		if n < 0 {
			return fmt.Errorf("invalid message: field %d: %w", field, protowire.ParseError(n))
		}
		visit(field, value, number, b[:tag+n])
		b = b[tag+n:]
	}
	return nil
}

// reference is the payload of a delivery.
type reference struct {
	Namespace string `json:"namespace"`
	Task      string `json:"task"`
	Attempt   int    `json:"attempt"`
}

// errNoReference is why a task of another asynq client cannot be run.
var errNoReference = errors.New("the payload is not a reference to an attempt of a DTS task")

// messageOf returns the message of a delivery in the queue with that name in asynq.
func messageOf(d task.Delivery, asynqQueue string) message {
	return message{
		taskType: d.Type, payload: payloadOf(d), id: d.String(), queue: asynqQueue, retry: deliveryRetries,
		timeout: d.Timeout + deliverySlack,
	}
}

// payloadOf returns a delivery's reference as JSON.
func payloadOf(d task.Delivery) []byte {
	text := payloadStart(d.Ref, d.Attempt)
	if slots := route.SlotsOf(d.Reach); d.Node != "" && slots > 1 {
		text += slotsMark + strconv.Itoa(slots)
	}
	return []byte(text + stampOf(d.ClaimedAt))
}

// slotsMark is before the slots that a task holds on its node, if it holds several; the stamp is behind them.
const slotsMark = `,"slots":`

// slots returns how many slots the task holds, as the payload of a delivery of DTS says.
func (m message) slots() int {
	_, rest, _ := bytes.Cut(m.payload, []byte(slotsMark))
	text, _, _ := bytes.Cut(rest, []byte(","))
	n, _ := strconv.Atoi(string(text)) // 0 if there is none
	return min(max(n, 1), route.SlotsLimit)
}

// payloadStart returns what comes before the stamp. No character of a namespace or an id needs to be escaped.
func payloadStart(ref task.Ref, attempt int) string {
	return `{"namespace":"` + ref.Namespace + `","task":"` + ref.ID + `","attempt":` + strconv.Itoa(attempt)
}

// stampOf returns the end of the payload: when the attempt was claimed, in ms since 1970, which tells the deliveries of one id
// apart.
func stampOf(claimed time.Time) string {
	return `,"claimed_ms":` + strconv.FormatInt(claimed.UnixMilli(), 10) + `}`
}

// reference returns the attempt to which the payload refers. Error: errNoReference.
func (m message) reference() (task.Ref, int, error) {
	// DTS's own deliveries say the same in their ids, which are read much faster than JSON.
	if ref, attempt, err := task.ParseDelivery(m.id); err == nil && bytes.HasPrefix(m.payload, []byte(payloadStart(ref, attempt)+",")) {
		return ref, attempt, nil
	}
	var r reference
	if err := json.Unmarshal(m.payload, &r); err != nil {
		return task.Ref{}, 0, fmt.Errorf("%w: %w", errNoReference, err)
	}
	ref := task.Ref{Namespace: r.Namespace, ID: r.Task}
	if _, err := task.ParseRef(ref.String()); err != nil || r.Attempt < 1 {
		return task.Ref{}, 0, fmt.Errorf(`%w: it must have the fields "namespace", "task" and "attempt"`, errNoReference)
	}
	return ref, r.Attempt, nil
}
