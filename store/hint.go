package store

import (
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
)

// Topics is a set of things that a [Hint] may be about.
type Topics uint8

// The topics.
const (
	TopicLanes       Topics = 1 << iota // lanes that may have batches to claim
	TopicFinals                         // batches that became final
	TopicOrders                         // orders that wait to become part of a batch
	TopicOrderFinals                    // orders that became final

	noTopic // stays the last constant
)

// AllTopics is the set of all topics.
const AllTopics = noTopic - 1

// Has reports whether t has all of these topics.
func (t Topics) Has(all Topics) bool { return t&all == all }

// Hint tells other processes on a database that something is new ([CanHint]). A hint may be lost,
// late, doubled or untrue, and may come from anybody who can write to the database. So it only
// causes a read that the next scan would make anyway.
type Hint struct {
	// From is the name of the sender, which no other sender has, or "". A listener does not get
	// its own hints.
	From string
	// Hears are the topics that the sender itself listens to. A hint with Hears is sent when a
	// listener begins, and about once a minute.
	Hears Topics
	// WholeTopics are the topics for which the hint has no names, because there would be too many.
	// Listeners read everything of these topics.
	WholeTopics Topics
	// Lanes are services, of TopicLanes.
	Lanes []batch.ServiceID
	// Finals are the [KeyHash] of batches, for TopicFinals, and OrderFinals those of orders, for
	// TopicOrderFinals.
	Finals, OrderFinals []uint64
}

// Listener receives hints ([Store].Hear). Its functions must be quick, and may be called
// concurrently.
type Listener struct {
	ID    string // the name of the listener, which gets no hint with this [Hint].From
	Wants Topics // the topics that the listener wants; others learn of them by [Hint].Hears
	// Heard gets the hints about one of these topics, and the hints about listeners.
	Heard func(Hint)
	// Live is called when a test has shown that hints arrive, and after each further successful
	// test. Hints about earlier events may be missing. way says how hints arrive, for people.
	Live func(way string)
}

// KeyHash returns a short number for a batch (its service and its id) or an order (its id).
// Another batch or order may have the same number, which only causes a read. The number is the
// 64-bit FNV-1a of the parts, each ended by a byte 0, so that every process and every version
// computes the same number.
func KeyHash(parts ...string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // as in hash/fnv, whose functions allocate
	sum := uint64(offset)
	for _, part := range parts {
		for i := range len(part) {
			sum = (sum ^ uint64(part[i])) * prime
		}
		sum *= prime // multiplies in the byte 0 that ends a part
	}
	return sum
}

// Topics returns the topics that the hint is about.
func (h Hint) Topics() Topics {
	t := h.WholeTopics
	if len(h.Lanes) > 0 {
		t |= TopicLanes
	}
	if len(h.Finals) > 0 {
		t |= TopicFinals
	}
	if len(h.OrderFinals) > 0 {
		t |= TopicOrderFinals
	}
	return t
}

// For reports whether a listener gets the hint.
func (h Hint) For(l Listener) bool {
	return (h.From == "" || h.From != l.ID) && (h.Topics()&l.Wants != 0 || h.Hears != 0)
}

// hintMark begins the text of every hint. The number in it is the version of the format that
// follows.
const hintMark = "dltbatch1"

// hintText is the part after hintMark, as JSON. Each list of numbers is encoded with eight bytes a
// number.
type hintText struct {
	From        string            `json:"from,omitzero"`
	Hears       Topics            `json:"hears,omitzero"`
	WholeTopics Topics            `json:"whole,omitzero"`
	Lanes       []batch.ServiceID `json:"lanes,omitempty"`
	Finals      []byte            `json:"finals,omitempty"`
	OrderFinals []byte            `json:"order_finals,omitempty"`
}

// Text returns the hint as an ASCII text of at most limit bytes, for a store that sends texts
// ([ParseHint]). A topic whose names do not fit is put into WholeTopics. If limit is too small
// even for that, Text returns "".
func (h Hint) Text(limit int) string {
	for {
		text := h.text()
		if len(text) <= limit {
			return text
		}
		switch lanes, finals, orders := encodedLanesLen(h.Lanes), 11*len(h.Finals), 11*len(h.OrderFinals); {
		case lanes+finals+orders == 0:
			return ""
		case lanes >= finals && lanes >= orders:
			h.Lanes, h.WholeTopics = nil, h.WholeTopics|TopicLanes
		case finals >= orders:
			h.Finals, h.WholeTopics = nil, h.WholeTopics|TopicFinals
		default:
			h.OrderFinals, h.WholeTopics = nil, h.WholeTopics|TopicOrderFinals
		}
	}
}

func encodedLanesLen(lanes []batch.ServiceID) (n int) {
	for _, s := range lanes {
		n += len(s) + 3
	}
	return n
}

func (h Hint) text() string {
	body, err := json.Marshal(hintText{h.From, h.Hears, h.WholeTopics, h.Lanes, numbersToBytes(h.Finals), numbersToBytes(h.OrderFinals)})
	if err != nil { // values of these types can always be encoded
		return ""
	}
	return hintMark + toASCII(string(body))
}

// toASCII writes each character outside ASCII as a JSON escape, since a database may have any
// encoding.
func toASCII(body string) string {
	plain := func(r rune) bool { return r < 0x80 }
	if !strings.ContainsFunc(body, func(r rune) bool { return !plain(r) }) {
		return body
	}
	var b strings.Builder
	for _, r := range body {
		switch {
		case plain(r):
			b.WriteRune(r)
		case r < 0x10000:
			writeUnit(&b, r)
		default:
			r -= 0x10000
			writeUnit(&b, 0xd800+r>>10)
			writeUnit(&b, 0xdc00+r&0x3ff)
		}
	}
	return b.String()
}

func writeUnit(b *strings.Builder, r rune) {
	const digits = "0123456789abcdef"
	b.WriteString(`\u`)
	for shift := 12; shift >= 0; shift -= 4 {
		b.WriteByte(digits[r>>shift&0xf])
	}
}

// MaxHint is the number of bytes in the longest text that [ParseHint] reads.
const MaxHint = 8000

// ParseHint parses a text of [Hint.Text]. For another text it returns false, or a hint of the
// parts that can be true, since anybody may have written the text.
func ParseHint(text string) (Hint, bool) {
	body, ours := strings.CutPrefix(text, hintMark)
	if !ours || len(text) > MaxHint {
		return Hint{}, false
	}
	var t hintText
	if json.Unmarshal([]byte(body), &t) != nil || len(t.From) > batch.MaxIDLen {
		return Hint{}, false
	}
	h := Hint{
		From: t.From, Hears: t.Hears & AllTopics, WholeTopics: t.WholeTopics & AllTopics,
		Finals: bytesToNumbers(t.Finals), OrderFinals: bytesToNumbers(t.OrderFinals),
	}
	for _, s := range t.Lanes {
		if (batch.Key{Service: s, ID: "any"}).Validate() == nil { // otherwise no batch can have this service
			h.Lanes = append(h.Lanes, s)
		}
	}
	return h, h.Topics()|h.Hears != 0
}

func numbersToBytes(all []uint64) (b []byte) {
	for _, n := range all {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

func bytesToNumbers(b []byte) (all []uint64) {
	for c := range slices.Chunk(b, 8) {
		if len(c) == 8 {
			all = append(all, binary.BigEndian.Uint64(c))
		}
	}
	return all
}

var topicNames = [...]string{"lanes", "finals", "orders", "order finals"}

// String names the topics: "lanes, finals"; "none".
func (t Topics) String() string {
	var names []string
	for rest := t & AllTopics; rest != 0; rest &= rest - 1 {
		names = append(names, topicNames[bits.TrailingZeros8(uint8(rest))])
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
