package evm_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
)

// Transactions with blobs go out with them, and each is executed once, after a reorg, too. A node
// has no plain ones of an account beside those with blobs: they wait, and nobody helps.
func blobsAreCarried(s *stage) {
	from, other := s.account(), s.account()
	with := func(from evmtest.Account, nonce uint64, blobs int) batch.Batch {
		raw, hash := from.Sign(evmtest.Unsigned{ChainID: s.chain, Nonce: nonce, To: evmtest.Dev(9).Address(), Blobs: blobs})
		b, err := evm.NewBatch(raw)
		require.NoError(s, err)
		require.Equal(s, hash, string(b.ID))
		return b
	}
	s.foreign(with(other, 0, 1)) // a real node computes for some seconds before its first blobs
	s.mine(4)
	p := s.run(evm.Options{Finality: evm.After(3)})
	all := []batch.Batch{with(from, 0, 2), with(from, 1, 6), with(from, 2, 0), with(from, 3, 1)}
	p.add(all[:2]...)
	p.becomes(all[1], batch.Pending, batch.Unknown)
	s.mine(1)
	p.becomes(all[0], batch.Valid)
	s.reorg(1)
	p.becomes(all[0], batch.Pending, batch.Unknown)
	p.add(all[2:]...)
	for range 300 {
		if p.record(all[3]).Final() {
			break
		}
		time.Sleep(3 * s.unit)
		s.mine(1)
	}
	var want []batch.ID
	for _, b := range all {
		p.becomes(b, batch.Committed)
		want = append(want, b.ID)
	}
	require.Equal(s, want, s.executed(from), "each once, in the order of nonces")
}
