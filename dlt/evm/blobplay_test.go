package evm_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
)

// Transactions with blobs are sent with their blobs, and each is executed once, also after a
// reorganization. A node accepts no plain transaction of an account while it has one with blobs of
// that account: the plain ones wait, and go out without help later.
func blobsAreCarried(s *testChain) {
	from, other := s.newAccount(), s.newAccount()
	with := func(from evmtest.Account, nonce uint64, blobs int) batch.Batch {
		raw, hash := from.Sign(evmtest.Unsigned{ChainID: s.chain, Nonce: nonce, To: evmtest.Dev(9).Address(), Blobs: blobs})
		b, err := evm.NewBatch(raw)
		require.NoError(s, err)
		require.Equal(s, hash, string(b.ID))
		return b
	}
	s.sendForeign(with(other, 0, 1)) // a real node computes for some seconds before it accepts its first blobs
	s.mine(4)
	p := s.startRunner(evm.Options{Finality: evm.After(3)})
	all := []batch.Batch{with(from, 0, 2), with(from, 1, 6), with(from, 2, 0), with(from, 3, 1)}
	p.add(all[:2]...)
	p.waitForState(all[1], batch.Pending, batch.Unknown)
	s.mine(1)
	p.waitForState(all[0], batch.Valid)
	s.reorg(1)
	p.waitForState(all[0], batch.Pending, batch.Unknown)
	p.add(all[2:]...)
	for range 300 {
		if p.record(all[3]).Final() {
			break
		}
		time.Sleep(3 * s.timeUnit)
		s.mine(1)
	}
	var want []batch.ID
	for _, b := range all {
		p.waitForState(b, batch.Committed)
		want = append(want, b.ID)
	}
	require.Equal(s, want, s.executedHashes(from), "each once, in the order of nonces")
}
