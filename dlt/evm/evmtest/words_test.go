package evmtest

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// signedAs returns a signed transaction of any type.
func signedAs(a Account, tx evmtx.Tx) string {
	tx.Tip, tx.FeeCap, tx.To, tx.Value = big.NewInt(30e9), big.NewInt(30e9), &evmtx.Address{0xde, 0xad}, big.NewInt(1)
	tx.Gas = 21000
	tx.Sign(a.key)
	return hexBytes(tx.Encode())
}

// Steps that a test does to a node, besides sending transactions.
const (
	mineBlock    = "mine"
	delegateCode = "delegate" // gives Dev(0) delegated code
)

// stepsToRefusal returns for each refusal the steps that lead to it: signed bytes, or one of the
// two steps above. The last transaction is refused.
func stepsToRefusal(chainID uint64, poolLimit int) map[Refusal][]string {
	tx := func(a Account, nonce uint64, bend ...func(*Unsigned)) string {
		u := Unsigned{ChainID: chainID, Nonce: nonce, To: deadAddress, Value: big.NewInt(1)}
		for _, b := range bend {
			b(&u)
		}
		raw, _ := a.Sign(u)
		return hexBytes(raw)
	}
	blobs := func(nonce uint64) string { return tx(Dev(0), nonce, func(u *Unsigned) { u.Blobs = 1 }) }
	blob := evmtx.Tx{
		Type: evmtx.Blob, ChainID: chainID, Tip: big.NewInt(1e9), FeeCap: big.NewInt(30e9), Gas: 21000, To: &evmtx.Address{0xde, 0xad}, BlobFeeCap: big.NewInt(1),
		BlobHashes: []evmtx.Hash{{1}},
	}
	blob.Sign(Dev(0).key)
	wrong := blob
	wrong.Sidecar, _ = evmtx.ZeroBlobs(1)
	first := tx(Dev(0), 0)
	bent := func(bend func(*Unsigned)) []string { return []string{tx(Dev(0), 0, bend)} }
	full := []string{}
	for nonce := range uint64(poolLimit) {
		full = append(full, tx(Dev(0), nonce))
	}
	return map[Refusal][]string{
		AlreadyKnown:        {first, first},
		NonceTooLow:         {first, mineBlock, first},
		ReplacementTooCheap: {first, tx(Dev(0), 0, func(u *Unsigned) { u.Value = big.NewInt(2) })},
		NonceGap:            {tx(Dev(0), 1)},
		BelowBaseFee:        bent(func(u *Unsigned) { u.Tip, u.FeeCap = big.NewInt(2), big.NewInt(2) }),
		TipTooLow:           bent(func(u *Unsigned) { u.Tip = new(big.Int) }),
		TipAboveCap:         bent(func(u *Unsigned) { u.Tip = big.NewInt(31e9) }),
		NoFunds:             {tx(Named("poor"), 0)},
		IntrinsicGas:        bent(func(u *Unsigned) { u.Gas = 20999 }),
		FloorGas:            bent(func(u *Unsigned) { u.Gas, u.Data = 22700, make([]byte, 400) }),
		GasAboveCap:         bent(func(u *Unsigned) { u.Gas = maxTxGas + 1 }),
		GasAboveBlock:       bent(func(u *Unsigned) { u.Gas = 12_000_000 }),
		FeeAboveCap:         bent(func(u *Unsigned) { u.Tip, u.FeeCap = big.NewInt(1e14), big.NewInt(1e14) }),
		WrongChain:          bent(func(u *Unsigned) { u.ChainID = 7 }),
		Unprotected:         {signedAs(Dev(0), evmtx.Tx{Type: evmtx.Legacy})},
		Oversized:           bent(func(u *Unsigned) { u.Gas, u.Data, u.FeeCap = 10_000_000, make([]byte, maxTxBytes), big.NewInt(2e9) }),
		NotRLP:              {"0x02deadbeef"},
		TrailingBytes:       {first + "00"},
		NoBytes:             {"0x"},
		UnknownType:         {"0x7f01"},
		BadSignature:        {first[:len(first)-64] + strings.Repeat("f", 64)},
		PoolFull:            append(full, tx(Dev(1), 0)),
		AccountLimit:        {delegateCode, first, tx(Dev(0), 1)},
		BlobGap:             {blobs(1)},
		NoBlobs:             {hexBytes(blob.Encode())},
		WrongBlobs:          {hexBytes(wrong.EncodeToSend())},
		Reserved:            {blobs(0), tx(Dev(0), 1)},
	}
}

// Each refusal can be caused, and the answer has the text of the personality. A personality
// without a text for the reason accepts the transaction.
func TestRefusals(t *testing.T) {
	for _, p := range []Personality{Geth, Anvil, Provider, Besu, Nethermind, Reth, Erigon, Sequencer} {
		words := Refusals(p)
		all := stepsToRefusal(map[bool]uint64{true: 31337, false: 1337}[p == Anvil], 4)
		for why, steps := range all {
			t.Run(string(p)+"/"+string(why), func(t *testing.T) {
				runInBubble(t, Options{Personality: p, BlockTime: -1, PoolLimit: 4, NoTracker: true, GasLimit: 11_500_000}, func(t *testing.T, n *Node) {
					last := len(steps) - 1
					for _, step := range steps[:last] {
						switch step {
						case mineBlock:
							n.Mine()
						case delegateCode:
							n.SetCode(Dev(0).Address(), delegatedCode())
						default:
							askResult(t, n, sendMethod, step)
						}
					}
					got, w := ask(t, n, sendMethod, steps[last])
					want, refuses := words[why]
					if p == Anvil && why == GasAboveCap {
						want, refuses = words[GasAboveBlock], true // the gas limit of this test's blocks is lower
					}
					if !refuses {
						require.Nil(t, w)
						require.Len(t, got, 66)
						return
					}
					require.NotNil(t, w, "taken")
					if p == Provider {
						require.Equal(t, -32603, w.Code)
						require.True(t, strings.HasPrefix(w.Text, providerPrefix), w.Text)
					} else {
						require.Equal(t, want.Code, w.Code)
					}
					text := want.Text
					if why == FeeAboveCap && n.rules.addsDetails {
						text = "tx fee (2.10 ether) exceeds the configured cap (1.00 ether)"
					}
					require.Contains(t, w.Text, text)
				})
			})
		}
		for why := range words {
			require.Contains(t, all, why)
		}
	}
}

// No text of a personality is empty, and no caller can change the texts.
func TestWordsAreCopies(t *testing.T) {
	Refusals(Geth)[AlreadyKnown] = RPCError{1, "changed"}
	for why, w := range Refusals(Geth) {
		require.NotEmpty(t, w.Text, why)
		require.NotEqual(t, "changed", w.Text)
	}
}
