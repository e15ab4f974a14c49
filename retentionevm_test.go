package dltbatch_test

import (
	"math/big"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/store/memory"
)

// An intent on an EVM chain is paid once, even if its caller adds it again long after retention
// has removed it. The removed bytes named the nonce, and a new attempt would get another nonce.
func TestAnIntentIsPaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, err := evmtest.Listen(&evmtest.Options{InMemory: true, ChainID: 1337, BlockTime: 2 * time.Second})
		require.NoError(t, err)
		defer node.Close()
		client := node.Client()
		client.Transport.(*http.Transport).DisableKeepAlives = false
		defer client.CloseIdleConnections()
		signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
		require.NoError(t, err)
		from := signer.Accounts()[0]
		st := memory.New()
		pay := evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(1_000_000)}
		b, err := pay.Batch("invoice 4711", from)
		require.NoError(t, err)
		b.DataChangeID = "4711"
		again, err := pay.Batch("invoice 4711, once more", from)
		require.NoError(t, err)
		again.DataChangeID = "4711"
		for range 3 { // each time another process, because a process knows for a while what it has posted
			l, err := evm.NewSigner(node.URL(), 1337, signer, &evm.SignerOptions{Options: evm.Options{Client: client, Finality: evm.After(2)}})
			require.NoError(t, err)
			r := newStartedRunner(t, st, l, &dltbatch.Options{Retention: time.Hour})
			require.NoError(t, r.Add(t.Context(), b))
			require.NoError(t, r.Add(t.Context(), again), "of the same key")
			rec, err := r.Await(t.Context(), b.Key())
			require.NoError(t, err)
			require.Equal(t, batch.Committed, rec.State)
			time.Sleep(2 * time.Hour)
		}
		nonce, _ := node.Nonce(from)
		require.EqualValues(t, 1, nonce, "transactions of the payer in blocks")
	})
}
