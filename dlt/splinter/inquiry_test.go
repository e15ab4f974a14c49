package splinter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/tier"
)

// hexID returns an id that begins with these digits.
func hexID(begin string) string { return begin + strings.Repeat("0", idLen-len(begin)) }

// receiptStore is a node's receipts in the order in which they were written. The node replays them
// to the end in pages, each with ids greater than the last one.
type receiptStore []string

func (s receiptStore) replayAfter(after string) (out []string) {
	for {
		n := len(out)
		for _, id := range s {
			if id > after && len(out)-n < replayPageLen {
				out = append(out, id)
			}
		}
		if len(out) == n {
			return out
		}
		after = out[len(out)-1]
	}
}

// readReplay returns a replay as a client reads it.
func (s receiptStore) readReplay(from string) replayResult {
	r := replayResult{cursor: from, hasEnded: true}
	for _, id := range s.replayAfter(from) {
		if !slices.Contains(r.ids, id) {
			r.ids = append(r.ids, id)
		}
		if len(r.ids) == replayPageLen {
			r.hasEnded = false
			break
		}
	}
	return r
}

func (s receiptStore) searchReceipts(ids ...string) (found receiptState, questions int) {
	list, own := cursorsBefore(slices.Max(ids))
	q := receiptSearch{ids: ids, ownCursor: own}
	for _, from := range list {
		questions++
		if found, done := q.addReplay(s.readReplay(from)); done {
			return found, questions
		}
	}
	return receiptsUnknown, questions
}

func TestEachCursorIsRight(t *testing.T) {
	for _, id := range []string{hexID("8"), hexID("f"), hexID("0001"), strings.Repeat("f", idLen), hexID("00000000001")} {
		list, own := cursorsBefore(id)
		assert.Less(t, own, id)
		for _, c := range list {
			assert.Len(t, c, idLen)
			assert.True(t, c <= own || c >= id, "nothing is between the id and its cursor")
		}
		assert.True(t, slices.IsSortedFunc(list, func(a, b string) int { return strings.Compare(b, a) }))
		assert.Contains(t, list, own)
		assert.Contains(t, list, strings.Repeat("0", idLen))
	}
	list, _ := cursorsBefore(hexID("0"))
	assert.Empty(t, list, "nothing is below it")
	list, _ = cursorsBefore("not hex")
	assert.Empty(t, list)
}

// Whatever the history is, the receipts never lead to a wrong conclusion. If fewer than 64 greater
// ids came before, they lead to a conclusion.
func TestReceiptSearchOfAnyHistory(t *testing.T) {
	tier.Plain(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	random := func() string {
		var b strings.Builder
		for b.Len() < idLen {
			fmt.Fprintf(&b, "%016x", r.Uint64())
		}
		return b.String()
	}
	for range 300 {
		var s receiptStore
		for range r.IntN(200) {
			s = append(s, random())
		}
		ids := []string{random()}
		if r.IntN(3) == 0 {
			ids = append(ids, random())
		}
		greater := 0
		for _, id := range s {
			if id > slices.Max(ids) {
				greater++
			}
		}
		want := receiptsMissing
		if there := r.IntN(2) == 0; there {
			s, want = append(s, ids...), receiptsPresent
			for range r.IntN(100) { // receipts that come later hide nothing
				s = append(s, random())
			}
		}
		found, questions := s.searchReceipts(ids...)
		assert.LessOrEqual(t, questions, 8)
		if found != receiptsUnknown {
			require.Equal(t, want, found)
		} else {
			require.True(t, greater >= replayPageLen-len(ids) || len(s) == 0 || want == receiptsPresent, "%d greater of %d: not settled", greater, len(s))
		}
	}
}

// TestACursorThatReplaysNothingProvesNothing shows why receipts settle no doubt of a long history:
// if 64 greater ids came before, a node that has a receipt and a node that does not have it answer
// the same for every cursor.
func TestACursorThatReplaysNothingProvesNothing(t *testing.T) {
	var before receiptStore
	for i := range replayPageLen {
		before = append(before, hexID(fmt.Sprintf("a%02x", i)))
	}
	before = append(before, hexID("1"))
	id := hexID("2")
	after := append(slices.Clone(before), id)
	for i := range 0x1000 {
		from := hexID(fmt.Sprintf("%03x", i))
		require.Equal(t, before.replayAfter(from), after.replayAfter(from))
	}
	_, own := cursorsBefore(id)
	require.Equal(t, before.replayAfter(own), after.replayAfter(own))
	for _, s := range []receiptStore{before, after} {
		found, _ := s.searchReceipts(id)
		assert.Equal(t, receiptsUnknown, found)
	}
	// With one greater id less, the answers differ.
	found, _ := before[1:].searchReceipts(id)
	assert.Equal(t, receiptsMissing, found)
	found, _ = after[1:].searchReceipts(id)
	assert.Equal(t, receiptsPresent, found)
}

// TestReceiptSearchRefuses shows each condition of the proof, and the result without it.
func TestReceiptSearchRefuses(t *testing.T) {
	id := hexID("8")
	_, own := cursorsBefore(id)
	few := []string{hexID("9"), hexID("a")}
	var many []string
	for i := range replayPageLen {
		many = append(many, hexID(fmt.Sprintf("9%02x", i)))
	}
	for name, row := range map[string]struct {
		replays []replayResult
		want    receiptState
	}{
		"all is told":                               {[]replayResult{{own, few, true}}, receiptsMissing},
		"it is there":                               {[]replayResult{{own, append(slices.Clone(few), id), true}}, receiptsPresent},
		"the end did not come":                      {[]replayResult{{own, few, false}}, receiptsUnknown},
		"64 were told, and it may be among more":    {[]replayResult{{own, many, false}}, receiptsUnknown},
		"64 were told above it":                     {[]replayResult{{hexID("81"), many, false}, {own, few, true}}, receiptsUnknown},
		"a store that selects by time":              {[]replayResult{{own, []string{hexID("1"), hexID("9")}, true}}, receiptsUnknown},
		"one that begins with what was asked for":   {[]replayResult{{own, []string{own}, true}}, receiptsUnknown},
		"a node that replays nothing":               {[]replayResult{{own, nil, true}, {hexID("0"), nil, true}}, receiptsUnknown},
		"one that replays something at other times": {[]replayResult{{own, nil, true}, {hexID("0"), []string{hexID("1")}, true}}, receiptsMissing},
	} {
		t.Run(name, func(t *testing.T) {
			q := receiptSearch{ids: []string{id}, ownCursor: own}
			found := receiptsUnknown
			for _, r := range row.replays {
				var isDone bool
				if found, isDone = q.addReplay(r); isDone {
					break
				}
			}
			assert.Equal(t, row.want, found)
		})
	}
}
