package evmtest

import (
	"testing"
	"time"
)

// BenchmarkSend sends payments of ten accounts, with a thousand payments in each block.
func BenchmarkSend(b *testing.B) {
	n := NewNode(&Options{Personality: Anvil, BlockTime: -1})
	var raws [][]byte
	nonces := map[int]uint64{}
	for i := range b.N {
		raw, _ := Dev(i % 10).Sign(Unsigned{ChainID: n.options.ChainID, Nonce: nonces[i%10], To: deadAddress})
		nonces[i%10]++
		raws = append(raws, raw)
	}
	b.ResetTimer()
	for i, raw := range raws {
		n.withLock(func(now time.Time) {
			if _, why := n.receive(now, raw, false); why != nil {
				b.Fatal(why)
			}
		})
		if i%1000 == 999 {
			n.Mine()
		}
	}
}
