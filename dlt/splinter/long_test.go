package splinter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// The client finds the verdict, and the answers after it, however long a batch's list of
// transactions is. It keeps only as many transactions as have room.
func TestALongListOfTransactionsHidesNoVerdict(t *testing.T) {
	tier.Plain(t)
	const maxAllowed = 64 << 10
	one, other := batch.ID(strings.Repeat("a", 128)), batch.ID(strings.Repeat("b", 128))
	var list strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&list, `{"transaction_id":"%0128x","error_message":"it is bad","error_data":[]},`, i)
	}
	for _, status := range []string{
		`{"statusType":"Invalid","message":[` + list.String() + `{"transaction_id":1}]}`,
		`{"message":[` + list.String() + `7],"statusType":"Invalid"}`,
	} {
		answer := `[{"id":"` + string(one) + `","status":` + status + `,"timestamp":{"secs_since_epoch":7,"nanos_since_epoch":0}},` +
			`{"id":"` + string(other) + `","status":{"statusType":"Committed","message":[]}}]`
		require.Greater(t, len(answer), 80*maxAllowed)
		got, err := decodeStatuses(strings.NewReader(answer), maxAllowed, []batch.ID{one, other})
		require.NoError(t, err)
		require.Len(t, got, 2)
		assert.Equal(t, batch.ReportedInvalid, got[0].Reported)
		assert.Equal(t, "it is bad", got[0].Message)
		assert.EqualValues(t, 7, got[0].firstSeen.Unix())
		assert.Equal(t, batch.ReportedCommitted, got[1].Reported)
		size := 0
		for _, r := range got[0].Receipts {
			size += len(r.TransactionID) + len(r.Message) + len(r.Data)
		}
		assert.InDelta(t, maxAllowed, size, 200, "bytes of receipts")
	}
}

// Up to 256 frames wait for the log, and only the id of each is kept.
func TestOnlyTheIDOfAFrameIsKept(t *testing.T) {
	id := strings.Repeat("c", 128)
	large := `{"id":"` + id + `","state_changes":[{"Set":{"key":"x","value":[` + strings.Repeat("1,", 1<<20) + `1]}}]}`
	r := readEventFrame([]byte(large))
	require.NoError(t, r.err)
	assert.Equal(t, eventFrame{id: id}, r)
	r = readEventFrame([]byte(`{"id":"` + strings.Repeat("d", 1<<20) + `"}`))
	require.NoError(t, r.err)
	assert.LessOrEqual(t, len(r.id), batch.MaxIDLen)
	assert.Error(t, readEventFrame([]byte(strings.Repeat("e", 1<<20))).err, "no event: a gap")
	assert.Equal(t, eventFrame{text: []byte(`{"probe":"x"}`)}, readEventFrame([]byte(`{"probe":"x"}`)))
}

// An echo is never longer than a frame whose text is kept.
func TestAProbeIsShort(t *testing.T) {
	p := newProber(1)
	p.probeCount = 1 << 60
	text, err := p.nextProbe(p.dueAt, false)
	require.NoError(t, err)
	assert.Less(t, len(text), maxEcho)
}
