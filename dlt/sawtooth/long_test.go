package sawtooth

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// A node lists a transaction again each time it is executed, and puts this list before the
// verdict. The client finds the verdict, and the answers after it, however long that list is. It
// keeps only as many transactions as have room.
func TestALongListOfTransactionsHidesNoVerdict(t *testing.T) {
	tier.Plain(t)
	const maxAllowed = 64 << 10
	one, other := batch.ID(strings.Repeat("a", 128)), batch.ID(strings.Repeat("b", 128))
	var list strings.Builder
	for i := range 40_000 {
		if i%2 == 0 {
			i = 0 // executed again
		}
		fmt.Fprintf(&list, `{"id":"%0128x","message":"it is bad","extended_data":"AAAA"},`, i)
	}
	answer := `{"data":[{"id":"` + string(one) + `","invalid_transactions":[` + list.String() + `{"id":1}],"status":"INVALID"},` +
		`{"id":"` + string(other) + `","invalid_transactions":[],"status":"COMMITTED"}],"link":"x"}`
	require.Greater(t, len(answer), 80*maxAllowed)
	got, err := decodeStatuses(strings.NewReader(answer), maxAllowed, []batch.ID{one, other})
	require.NoError(t, err)
	require.Len(t, got, 2)
	assert.Equal(t, batch.ReportedInvalid, got[0].Reported)
	assert.Equal(t, "it is bad", got[0].Message)
	assert.Equal(t, batch.ReportedCommitted, got[1].Reported)
	size := 0
	for _, r := range got[0].Receipts {
		size += len(r.TransactionID) + len(r.Message) + len(r.Data)
	}
	assert.InDelta(t, maxAllowed, size, 200, "bytes of receipts")
}

// A batch in the chain is found even if its payload is larger than MaxResponse.
func TestALargePayloadHidesNoBatch(t *testing.T) {
	id, tx := strings.Repeat("a", 128), strings.Repeat("b", 128)
	answer := `{"data":{"header":{"signer_public_key":"x","transaction_ids":["` + tx + `"]},"header_signature":"` + id + `","trace":false,` +
		`"transactions":[{"payload":"` + strings.Repeat("A", 1<<20) + `"}]},"link":"x"}`
	f, err := decodeLookup(strings.NewReader(answer), 64<<10, id)
	require.NoError(t, err)
	assert.Equal(t, lookupResult{isInChain: true, transactions: []string{tx}}, f)
	_, err = decodeLookup(strings.NewReader(answer), 64<<10, tx)
	require.Error(t, err, "another batch")
	_, err = decodeLookup(strings.NewReader(answer[:100]), 64<<10, id)
	require.Error(t, err, "cut off")
}
