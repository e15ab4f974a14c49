package evmtest

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// signedAs signs a transaction that need not be of type 2.
func signedAs(a Account, tx evmtx.Tx) string {
	tx.Tip, tx.FeeCap, tx.To, tx.Value = big.NewInt(30e9), big.NewInt(30e9), &evmtx.Address{0xde, 0xad}, big.NewInt(1)
	tx.Gas = 21000
	tx.Sign(a.key)
	return hexBytes(tx.Encode())
}

// provocations are one transaction for each refusal, and what comes before it.
var provocations = map[Refusal]func(t *testing.T, n *Node) string{
	AlreadyKnown: func(t *testing.T, n *Node) string {
		send(t, n, Dev(0), 0)
		return only(pay(n, Dev(0), 0))
	},
	NonceTooLow: func(t *testing.T, n *Node) string {
		send(t, n, Dev(0), 0)
		n.Mine()
		return only(pay(n, Dev(0), 0))
	},
	ReplacementTooCheap: func(t *testing.T, n *Node) string {
		send(t, n, Dev(0), 0)
		return only(pay(n, Dev(0), 0, func(u *Unsigned) { u.Value = big.NewInt(2) }))
	},
	NonceGap: func(_ *testing.T, n *Node) string { return only(pay(n, Dev(0), 1)) },
	BelowBaseFee: func(_ *testing.T, n *Node) string {
		return only(pay(n, Dev(0), 0, func(u *Unsigned) { u.Tip, u.FeeCap = big.NewInt(2), big.NewInt(2) }))
	},
	TipTooLow: func(_ *testing.T, n *Node) string {
		return only(pay(n, Dev(0), 0, func(u *Unsigned) { u.Tip = new(big.Int) }))
	},
	TipAboveCap: func(_ *testing.T, n *Node) string {
		return only(pay(n, Dev(0), 0, func(u *Unsigned) { u.Tip = big.NewInt(31e9) }))
	},
	NoFunds: func(_ *testing.T, n *Node) string { return only(pay(n, Named("poor"), 0)) },
	IntrinsicGas: func(_ *testing.T, n *Node) string {
		return only(pay(n, Dev(0), 0, func(u *Unsigned) { u.Gas = 20999 }))
	},
	FloorGas: func(_ *testing.T, n *Node) string {
		return only(pay(n, Dev(0), 0, func(u *Unsigned) { u.Gas, u.Data = 22700, make([]byte, 400) }))
	},
	GasAboveCap: func(_ *testing.T, n *Node) string {
		return only(pay(n, Dev(0), 0, func(u *Unsigned) { u.Gas = maxGas + 1 }))
	},
	GasAboveBlock: func(_ *testing.T, n *Node) string {
		return only(pay(n, Dev(0), 0, func(u *Unsigned) { u.Gas = 12_000_000 }))
	},
	FeeAboveCap: func(_ *testing.T, n *Node) string {
		return only(pay(n, Dev(0), 0, func(u *Unsigned) { u.Tip, u.FeeCap = big.NewInt(1e14), big.NewInt(1e14) }))
	},
	WrongChain: func(_ *testing.T, n *Node) string {
		return only(pay(n, Dev(0), 0, func(u *Unsigned) { u.ChainID = 7 }))
	},
	Unprotected: func(*testing.T, *Node) string { return signedAs(Dev(0), evmtx.Tx{Type: evmtx.Legacy}) },
	Oversized: func(_ *testing.T, n *Node) string {
		return only(pay(n, Dev(0), 0, func(u *Unsigned) { u.Gas, u.Data, u.FeeCap = 10_000_000, make([]byte, maxBytes), big.NewInt(2e9) }))
	},
	NotRLP:        func(*testing.T, *Node) string { return "0x02deadbeef" },
	TrailingBytes: func(_ *testing.T, n *Node) string { return only(pay(n, Dev(0), 0)) + "00" },
	NoBytes:       func(*testing.T, *Node) string { return "0x" },
	UnknownType:   func(*testing.T, *Node) string { return "0x7f01" },
	BadSignature: func(_ *testing.T, n *Node) string {
		raw := only(pay(n, Dev(0), 0))
		return raw[:len(raw)-64] + strings.Repeat("f", 64)
	},
	PoolFull: func(t *testing.T, n *Node) string {
		for nonce := range uint64(n.o.PoolLimit) {
			send(t, n, Dev(0), nonce)
		}
		return only(pay(n, Dev(1), 0))
	},
	AccountLimit: func(t *testing.T, n *Node) string {
		n.SetCode(Dev(0).Address(), append([]byte{0xef, 0x01, 0x00}, make([]byte, 20)...))
		send(t, n, Dev(0), 0)
		return only(pay(n, Dev(0), 1))
	},
}

func only(raw, _ string) string { return raw }

// Each refusal can be provoked, and is answered with the word of the software. Where it has no word
// for it, the transaction is taken.
func TestRefusals(t *testing.T) {
	for _, p := range []Personality{Geth, Anvil, Provider, Besu, Nethermind, Reth, Erigon, Sequencer} {
		words := Words(p)
		for why, provoke := range provocations {
			t.Run(string(p)+"/"+string(why), func(t *testing.T) {
				bubble(t, Options{Personality: p, BlockTime: -1, PoolLimit: 4, NoTracker: true, GasLimit: 11_500_000}, func(t *testing.T, n *Node) {
					raw := provoke(t, n)
					got, w := ask(t, n, sendMethod, raw)
					want, refuses := words[why]
					if p == Anvil && why == GasAboveCap {
						want, refuses = words[GasAboveBlock], true // the block of this test is smaller
					}
					if !refuses {
						require.Nil(t, w)
						require.Len(t, got, 66)
						return
					}
					require.NotNil(t, w, "taken")
					if p == Provider {
						require.Equal(t, -32603, w.Code)
						require.True(t, strings.HasPrefix(w.Text, n.o.Prefix), w.Text)
					} else {
						require.Equal(t, want.Code, w.Code)
					}
					text := want.Text
					if why == FeeAboveCap && n.r.details {
						text = "tx fee (2.10 ether) exceeds the configured cap (1.00 ether)"
					}
					require.Contains(t, w.Text, text)
				})
			})
		}
		for why := range words {
			require.Contains(t, provocations, why)
		}
	}
}

// What a node says is no more than its own: none of the texts is empty, and no caller can change them.
func TestWordsAreCopies(t *testing.T) {
	Words(Geth)[AlreadyKnown] = Word{1, "changed"}
	for why, w := range Words(Geth) {
		require.NotEmpty(t, w.Text, why)
		require.NotEqual(t, "changed", w.Text)
	}
}
