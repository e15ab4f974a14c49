package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/dltbatch/dltbatch/batch"
)

// Speed says how much [HistoryFees] pays on top of the base fee: it is a percentile, from 1 to
// 100, of the tips that transactions of the last blocks have paid.
type Speed float64

// The speeds.
const (
	Slow   Speed = 10
	Normal Speed = 50
	Fast   Speed = 90
)

// historyBlocks is how many of the last blocks count.
const historyBlocks = 20

// HistoryFees returns Fees that choose by the last 20 blocks (eth_feeHistory). From each block
// that is not empty they take the tip at the percentile s: s percent of the block's gas paid no
// higher one. The tip is the median of these, and 1 wei at least; where all blocks are empty it is
// the tip that the node suggests. The fee cap is twice the base fee of the next block, and the
// tip. On a chain without a base fee, whose transactions have one gas price, they choose as
// [DefaultFees] does. They cost one more request to the node for each transaction that is signed.
// The error is a [*batch.InputError] where s is not from 1 to 100.
func HistoryFees(s Speed) (Fees, error) {
	if !(s >= 1 && s <= 100) {
		return nil, &batch.InputError{Field: "speed", Value: strconv.FormatFloat(float64(s), 'g', -1, 64), Want: "a percentile from 1 to 100, such as evm.Normal"}
	}
	return func(ctx context.Context, m Market) (Fee, error) {
		if m.Legacy {
			return DefaultFees(ctx, m)
		}
		if m.askHistory == nil {
			return Fee{}, errors.New("HistoryFees: this Market is not of a client, and has no node to ask")
		}
		tips, next, err := m.askHistory(ctx, s)
		if err != nil {
			return Fee{}, err
		}
		if len(tips) > 0 {
			m.Tip = largest(median(tips), big.NewInt(1)) // geth takes no tip of 0
		}
		m.BaseFee = next
		return DefaultFees(ctx, m)
	}, nil
}

// median returns the middle value; of an even number of values, the lower middle one.
func median(v []*big.Int) *big.Int {
	return slices.SortedFunc(slices.Values(v), (*big.Int).Cmp)[(len(v)-1)/2]
}

// historyDoc is the answer of eth_feeHistory. BaseFees has one more element than there are blocks:
// the base fee of the next block.
type historyDoc struct {
	BaseFees []string   `json:"baseFeePerGas"`
	Used     []float64  `json:"gasUsedRatio"`
	Rewards  [][]string `json:"reward"`
}

// askHistory asks the node for the tips of its last blocks, without the empty ones, and for the
// base fee of the next block.
func (p *preparation) askHistory(ctx context.Context, s Speed) (tips []*big.Int, next *big.Int, err error) {
	answers, err := p.client.ask(ctx, opPrepare, p.endpoint, []request{{"eth_feeHistory", []any{hexQuantity(historyBlocks), "latest", []float64{float64(s)}}}})
	if err != nil {
		return nil, nil, p.client.asLedgerError(opPrepare, err)
	}
	a := answers[0]
	if a.err != nil {
		return nil, nil, fmt.Errorf("eth_feeHistory: %s (code %d)", a.err.Message, a.err.Code)
	}
	return readHistory(a.result)
}

func readHistory(raw []byte) (tips []*big.Int, next *big.Int, err error) {
	var doc historyDoc
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, nil, fmt.Errorf("eth_feeHistory: %w", err)
	}
	blocks := len(doc.BaseFees) - 1
	if blocks < 1 || blocks > historyBlocks || len(doc.Used) != blocks || len(doc.Rewards) != blocks {
		return nil, nil, fmt.Errorf("eth_feeHistory: %d base fees, %d blocks' gas and %d blocks' tips, which do not fit together", len(doc.BaseFees), len(doc.Used), len(doc.Rewards))
	}
	for i, of := range doc.Rewards {
		if doc.Used[i] == 0 {
			continue
		}
		if len(of) != 1 || hexBig(of[0]) == nil {
			return nil, nil, errors.New("eth_feeHistory: a block without a tip")
		}
		tips = append(tips, hexBig(of[0]))
	}
	if next = hexBig(doc.BaseFees[blocks]); next == nil {
		return nil, nil, errors.New("eth_feeHistory: no base fee of the next block")
	}
	return tips, next, nil
}
