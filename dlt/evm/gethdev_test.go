package evm_test

import (
	"math/big"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/geth"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// developer is the key of the account that has all funds of a geth --dev.
const (
	developerKey     = "0xb71c71a67e1177ad4e901695e1b4b9ee17ae16c6668d313eac2f96dbcda3f291"
	developerAddress = "0x71562b71999873db5b286df957af199ec94617f7"
)

// A geth --dev makes a block for each transaction and no other blocks, so Instant fits it. With a
// period, its "finalized" block moves by 32 blocks.
func TestGethDev(t *testing.T) {
	for name, c := range map[string]struct {
		args    []string
		options evm.Options
	}{
		"a block of each, instant": {nil, evm.Options{Finality: evm.Instant()}},
		"a block each second":      {[]string{"--dev.period", "1"}, evm.Options{}},
		"a block each second, two": {[]string{"--dev.period", "1"}, evm.Options{Finality: evm.After(2)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newChainAtURL(t, geth.StartDev(t, c.args...))
			signer, err := evm.NewKeySigner(fromHex(developerKey))
			require.NoError(t, err)
			c.options.HeadInterval = 250 * time.Millisecond
			ledger, err := evm.NewSigner(s.url, s.chain, signer, &evm.SignerOptions{Options: c.options})
			require.NoError(t, err)
			t.Cleanup(ledger.CloseIdleConnections)
			p := s.startRunnerOf(memory.New(), ledger, queuer.Pipelined(4))
			var all []batch.Batch
			for v := range int64(6) {
				b, err := evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(v + 1)}.Batch(batch.ID(strconv.FormatInt(v, 10)), developerAddress)
				require.NoError(t, err)
				all = append(all, b)
			}
			p.add(all...)
			for _, b := range all {
				rec, err := p.Await(t.Context(), b.Key())
				require.NoError(t, err)
				require.Equal(t, batch.Committed, rec.State, "%v", rec.Error)
			}
			require.Equal(t, []int64{1, 2, 3, 4, 5, 6}, s.valuesPaidByAddress(developerAddress))
		})
	}
}
