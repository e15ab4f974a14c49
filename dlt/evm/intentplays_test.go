package evm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/hooked"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// intentScenarios are the scenarios with a SigningClient.
var intentScenarios = map[string]scenario{
	"IntentsAreExecutedInOrder":       {run: intentsInOrder},
	"IntentForeignTakesNonce":         {run: intentForeignTakesNonce},
	"IntentForeignUnfinalThenReorged": {run: intentForeignIsReorganizedAway},
	"NonceAboveUnfinalForeign":        {run: nonceAboveForeignInAYoungBlock},
	"IntentNonceTooLowNeverRenonces":  {run: intentNonceTooLow, needsNode: true},
	"BumpBothFees":                    {run: bumpBothFees},
	"ReplacedButOldOneMined":          {run: replacedButOldOneMined, needsNode: true},
	"UsedNonceIsDoubt":                {run: usedNonceIsDoubt},
	"VoidKnowsItsOwn":                 {run: ownDeepPaymentIsNotVoid},
	"BlocksWithoutTheirLists":         {run: blocksWithoutLists},
	"LimitOfFeesNeedsADecision":       {run: feeLimitAsksForADecision},
	"BumpDoesNotSpendBudget":          {run: bumpSpendsNoBudget, unfitPersonality: evmtest.Anvil, unfitReason: "it forgets what is too cheap, and to send that again is a try"},
	"IntentRevertIsInvalidWhenDeep":   {run: intentReverts},
	"IntentIsRejectedWhereItReverts":  {run: intentWouldRevert},
	"IntentReorgBeforeDeep":           {run: intentReorgBeforeDeep},
	"IntentFundsRunOutAndComeBack":    {run: intentFundsRunOut},
	"TwoPreparesOneSlot":              {run: twoPreparesOneSlot},
	"CrashAtEveryStep":                {run: crashAtEveryStep},
	"EqualIntentsAreTwoPayments":      {run: equalIntents},
	"NoHigherFeesForWhatIsForgotten":  {run: noHigherFees},
	"IntentPoolForgetsTenSeconds":     {run: intentPoolForgets, needsNode: true, unfitPersonality: evmtest.Anvil, unfitReason: "its pool is not kept"},
	"IntentAcceptedAndDropped":        {run: intentAcceptedAndDropped},
	"IntentEndedByAPerson":            {run: rulingEndsIntent},
	"IntentNodeKilledUnmines":         {run: intentNodeKilledUnmines, needsNode: true, unfitPersonality: evmtest.Anvil, unfitReason: "it does not put back what it un-mined"},
}

// newSigningClient returns a SigningClient with this signer.
func (s *testChain) newSigningClient(o evm.SignerOptions, signer evm.Signer) *evm.SigningClient {
	if o.Client == nil {
		o.Client = s.http
	}
	if s.node == nil { // in real time
		o.Grace, o.LateArrival = 10*s.timeUnit, 10*s.timeUnit
	}
	c, err := evm.NewSigner(s.url, s.chain, signer, &o)
	require.NoError(s, err)
	return c
}

func (s *testChain) newKeySigner(accounts ...evmtest.Account) *evm.KeySigner {
	var keys [][]byte
	for _, a := range accounts {
		keys = append(keys, a.Key())
	}
	signer, err := evm.NewKeySigner(keys...)
	require.NoError(s, err)
	return signer
}

// slotRecorder remembers the prepared bytes of each batch, attempt by attempt.
type slotRecorder struct {
	mu              sync.Mutex
	preparedByBatch map[batch.ID][][]byte
}

func (k *slotRecorder) record(a batch.Attempt) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.preparedByBatch == nil {
		k.preparedByBatch = map[batch.ID][][]byte{}
	}
	k.preparedByBatch[a.ID] = append(k.preparedByBatch[a.ID], slices.Clone(a.Prepared))
}

func (k *slotRecorder) preparedOf(b batch.Batch) [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.preparedByBatch[b.ID])
}

// lastSlot returns the content of a batch's slot at the last post.
func (k *slotRecorder) lastSlot(t testing.TB, b batch.Batch) (nonce uint64, fees []evm.Fee, hashes []string) {
	t.Helper()
	all := k.preparedOf(b)
	require.NotEmpty(t, all)
	nonce, fees, hashes, err := evm.Slot(all[len(all)-1])
	require.NoError(t, err)
	return nonce, fees, hashes
}

// withSlotRecorder returns the ledger l, and records each post in k.
func withSlotRecorder(l dlt.Ledger, k *slotRecorder) dlt.Ledger {
	return hooked.Wrap(l, hooked.Hooks{Submit: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) error) error {
		k.record(a)
		return next(ctx, a)
	}})
}

// runIntents starts a Runner for the intents of some accounts.
func (s *testChain) runIntents(o evm.SignerOptions, accounts ...evmtest.Account) (*chainRunner, *slotRecorder) {
	k := &slotRecorder{}
	return s.startRunnerOf(memory.New(), withSlotRecorder(s.newSigningClient(o, s.newKeySigner(accounts...)), k), queuer.Serial()), k
}

// newIntent returns a payment. No other payment has its value, so the chain shows whether it was
// made.
func (s *testChain) newIntent(from evmtest.Account, value int64) batch.Batch {
	return s.newIntentOf(from, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(value), Gas: 21000})
}

func (s *testChain) newIntentOf(from evmtest.Account, i evm.Intent) batch.Batch {
	s.lastID++
	b, err := i.Batch(batch.ID("intent "+strconv.Itoa(s.lastID)), from.Address())
	require.NoError(s, err)
	return b
}

// valuesPaid returns the values of an account's transactions on the chain, in order.
func (s *testChain) valuesPaid(from evmtest.Account) (values []int64) {
	return s.valuesPaidByAddress(from.Address())
}

func (s *testChain) valuesPaidByAddress(address string) (values []int64) {
	var head string
	s.call(&head, "eth_blockNumber")
	last, err := strconv.ParseUint(head[2:], 16, 64)
	require.NoError(s, err)
	for n := range last + 1 {
		var b struct {
			Transactions []struct{ From, Value string }
		}
		s.call(&b, "eth_getBlockByNumber", "0x"+strconv.FormatUint(n, 16), true)
		for _, tx := range b.Transactions {
			if tx.From == address {
				v, err := strconv.ParseInt(tx.Value[2:], 16, 64)
				require.NoError(s, err)
				values = append(values, v)
			}
		}
	}
	return values
}

func (s *testChain) setBaseFee(gwei int64) {
	s.control.setBaseFee(new(big.Int).Mul(big.NewInt(gwei), big.NewInt(1e9)))
}

// mineUntil makes blocks until the batch is in one of the states in want.
func (p *chainRunner) mineUntil(b batch.Batch, want ...batch.State) batch.Record {
	p.Helper()
	var rec batch.Record
	for range 500 {
		if rec = p.record(b); slices.Contains(want, rec.State) {
			return rec
		}
		time.Sleep(4 * p.timeUnit)
		p.mine(1)
	}
	require.Contains(p, want, rec.State, "%s after attempt %d: %v %s", b.Key(), rec.Attempt, rec.Error, rec.Decision)
	return rec
}

func finalAfterTwoBlocks() evm.SignerOptions {
	return evm.SignerOptions{Options: evm.Options{Finality: evm.After(2)}}
}

// TestIntentScenarios runs all scenarios of intents on three kinds of nodes, in virtual time.
func TestIntentScenarios(t *testing.T) {
	tier.Long(t)
	tier.Plain(t)
	runScenarios(t, intentScenarios, false)
}

func intentsInOrder(s *testChain) {
	from, other := s.newAccount(), s.newAccount()
	p, k := s.runIntents(finalAfterTwoBlocks(), from, other)
	var all []batch.Batch
	for i := range int64(4) {
		all = append(all, s.newIntent(from, 10+i), s.newIntent(other, 20+i))
	}
	p.add(all...)
	for i, b := range all {
		rec := p.mineUntil(b, batch.Committed)
		r, err := evm.ReadReceipt(rec.Receipts[0])
		require.NoError(s, err)
		nonce, _, hashes := k.lastSlot(s, b)
		assert.EqualValues(s, i/2, nonce)
		assert.Contains(s, hashes, r.Hash)
		for _, never := range []batch.State{batch.Invalid, batch.Rejected} {
			assert.NotContains(s, p.events.states(b), never)
		}
	}
	assert.Equal(s, []int64{10, 11, 12, 13}, s.valuesPaid(from), "each once, in the order of the lane")
	assert.Equal(s, []int64{20, 21, 22, 23}, s.valuesPaid(other))
}

// Another wallet uses the nonce: once that is deep, the batch gets another nonce, and is executed
// once. (rrelayer 36 answered "nonce too low" for ever.)
func intentForeignTakesNonce(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	p, k := s.runIntents(finalAfterTwoBlocks(), from)
	b := s.newIntent(from, 10)
	p.add(b)
	p.waitForState(b, batch.Pending)
	nonce, _, hashes := k.lastSlot(s, b)
	require.Zero(s, nonce)
	s.drop(batch.Batch{ID: batch.ID(hashes[0])})
	s.sendForeign(s.newPayment(from, 0, 99))
	p.mineUntil(b, batch.Committed)
	nonce, _, _ = k.lastSlot(s, b)
	assert.EqualValues(s, 1, nonce)
	assert.Equal(s, []int64{99, 10}, s.valuesPaid(from))
}

// Another wallet's transaction of the same nonce is taken back before it is deep: the batch keeps
// its nonce.
func intentForeignIsReorganizedAway(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	p, k := s.runIntents(evm.SignerOptions{Options: evm.Options{Finality: evm.After(6)}}, from)
	b := s.newIntent(from, 10)
	p.add(b)
	p.waitForState(b, batch.Pending)
	_, _, hashes := k.lastSlot(s, b)
	s.drop(batch.Batch{ID: batch.ID(hashes[0])})
	s.sendForeign(s.newPayment(from, 0, 99))
	s.mine(3)
	p.requireNeverInState(b, 60, batch.Committed, batch.Rejected, batch.Invalid)
	s.reorg(3)
	for n := range 200 {
		if n == 0 || s.node != nil { // on geth only once, since nobody else has the transaction that geth puts back into its pool
			s.control.forget()
		}
		if _, pending := s.nextNonces(from); pending == 1 {
			break
		}
		time.Sleep(s.timeUnit)
	}
	p.mineUntil(b, batch.Committed)
	nonce, _, _ := k.lastSlot(s, b)
	assert.Zero(s, nonce)
	if got := s.valuesPaid(from); s.node == nil || !slices.Equal(got, []int64{99, 10}) {
		assert.Equal(s, []int64{10}, got)
	}
}

// While somebody else's transaction of the account is under way, no higher nonce is used, so that
// no gap can arise.
func nonceAboveForeignInAYoungBlock(s *testChain) {
	from, other := s.newAccount(), s.newAccount()
	s.mine(4)
	s.sendForeign(s.newPayment(from, 0, 99))
	p, k := s.runIntents(finalAfterTwoBlocks(), from, other)
	b, of := s.newIntent(from, 10), s.newIntent(other, 20)
	p.add(b, of)
	rec := p.waitForState(b, batch.Delayed)
	require.Equal(s, batch.KindNotYet, rec.Error.Kind)
	assert.ErrorContains(s, rec.Error, "the ")
	if !s.hasNodeBehind { // else the backend that answers may be behind
		assert.ErrorContains(s, rec.Error, "the account has transactions under way")
	}
	p.waitForState(of, batch.Pending)
	assert.Empty(s, k.preparedOf(b), "nothing was posted")
	s.mine(1)
	p.requireNeverInState(b, 40, batch.Pending, batch.Committed)
	p.mineUntil(b, batch.Committed)
	assert.Equal(s, []int64{99, 10}, s.valuesPaid(from))
	assert.Equal(s, []int64{20}, s.valuesPaid(other))
}

// The answer to a send is lost, the transaction is mined, and the bytes are sent again: "nonce too
// low" does not lead to another nonce. (Alto 747.)
func intentNonceTooLow(s *testChain) {
	sent := 0
	s.setFault(func(p evmtest.RequestPoint) evmtest.Fault {
		if p.Method != "eth_sendRawTransaction" {
			return evmtest.Fault{}
		}
		if sent++; sent == 1 {
			return evmtest.Fault{Answer: evmtest.AnswerReset, Acceptance: evmtest.AcceptedFirst}
		}
		return evmtest.Fault{}
	})
	s.hidesStatuses.Store(true) // no question finds the transaction
	from := s.newAccount()
	s.mine(4)
	p, k := s.runIntents(finalAfterTwoBlocks(), from)
	b := s.newIntent(from, 10)
	p.add(b)
	p.waitForState(b, batch.Submitting, batch.Pending, batch.Unknown)
	s.mine(5)
	for range 1000 {
		if p.record(b).Attempt > 3 {
			break
		}
		time.Sleep(s.timeUnit)
	}
	s.hidesStatuses.Store(false)
	p.mineUntil(b, batch.Committed)
	for _, kept := range k.preparedOf(b) {
		assert.Equal(s, k.preparedOf(b)[0], kept, "what is mined is not replaced")
	}
	assert.Equal(s, []int64{10}, s.valuesPaid(from))
}

// A transaction that waits too long is replaced at the same nonce, with both fees raised. (Rundler
// 550 raised one of them.)
func bumpBothFees(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	p, k := s.runIntents(finalAfterTwoBlocks(), from)
	b := s.newIntent(from, 10)
	p.add(b)
	p.waitForState(b, batch.Pending)
	s.setBaseFee(50)
	p.mineUntil(b, batch.Committed)
	nonce, fees, _ := k.lastSlot(s, b)
	assert.Zero(s, nonce)
	require.Greater(s, len(fees), 1)
	for i, f := range fees[1:] {
		for _, pair := range [][2]*big.Int{{fees[i].Tip, f.Tip}, {fees[i].FeeCap, f.FeeCap}} {
			assert.GreaterOrEqual(s, new(big.Int).Mul(pair[1], big.NewInt(100)).Cmp(new(big.Int).Mul(pair[0], big.NewInt(110))), 0, "%s after %s", pair[1], pair[0])
		}
	}
	for i, kept := range k.preparedOf(b)[1:] {
		assert.Equal(s, k.preparedOf(b)[i], kept[:len(k.preparedOf(b)[i])], "it grows by appending")
	}
	assert.Equal(s, []int64{10}, s.valuesPaid(from))
}

// A signer refuses higher fees. The batch waits, and shows the signer's error, as long as the node
// has the last transaction. Once all nodes have forgotten it, that transaction goes out again
// unchanged, even if Fees asks for more.
func noHigherFees(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	good, k := s.newKeySigner(from), &slotRecorder{}
	var maxAllowed atomic.Pointer[big.Int]
	p := s.startRunnerOf(memory.New(), withSlotRecorder(s.newSigningClient(finalAfterTwoBlocks(), signerFunc(func(ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error) {
		maxAllowed.CompareAndSwap(nil, tx.Fee.FeeCap)
		if tx.Fee.FeeCap.Cmp(maxAllowed.Load()) > 0 {
			return [65]byte{}, errors.New("over the daily limit")
		}
		return good.Sign(ctx, account, tx)
	})), k), queuer.Serial())
	b := s.newIntent(from, 10)
	p.add(b)
	p.waitForState(b, batch.Pending)
	_, _, hashes := k.lastSlot(s, b)
	var rec batch.Record
	for range 200 {
		s.setBaseFee(50)
		s.mine(1)
		time.Sleep(4 * s.timeUnit)
		if rec = p.record(b); rec.Error != nil && strings.Contains(rec.Error.Error(), "over the daily limit") {
			break
		}
	}
	require.ErrorContains(s, rec.Error, "over the daily limit")
	s.drop(batch.Batch{ID: batch.ID(hashes[0])})
	for range 500 {
		s.setBaseFee(1)
		s.mine(1)
		time.Sleep(4 * s.timeUnit)
		if p.record(b).State == batch.Committed {
			break
		}
	}
	require.Equal(s, batch.Committed, p.record(b).State, "%v", p.record(b).Error)
	_, fees, _ := k.lastSlot(s, b)
	assert.Len(s, fees, 1)
	assert.Equal(s, []int64{10}, s.valuesPaid(from))
}

// While the replacement is in the pool, the replaced transaction is mined on another fork: the
// batch is committed by it.
func replacedButOldOneMined(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	var first []byte
	client := s.newSigningClient(finalAfterTwoBlocks(), s.newKeySigner(from))
	k := &slotRecorder{}
	ledger := hooked.Wrap(withSlotRecorder(client, k), hooked.Hooks{Prepare: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) ([]byte, error)) ([]byte, error) {
		out, err := next(ctx, a)
		if first == nil && err == nil {
			first = s.signedBytesOf(from, a, out)
		}
		return out, err
	}})
	p := s.startRunnerOf(memory.New(), ledger, queuer.Serial())
	b := s.newIntent(from, 10)
	p.add(b)
	p.waitForState(b, batch.Pending)
	cheap := len(s.node.Blocks())
	for range 200 {
		if _, fees, _ := k.lastSlot(s, b); len(fees) > 1 {
			break
		}
		time.Sleep(4 * s.timeUnit)
		s.setBaseFee(50)
		s.mine(1)
	}
	_, fees, hashes := k.lastSlot(s, b)
	require.Greater(s, len(fees), 1)
	s.setBaseFee(1) // anvil keeps its base fee otherwise
	require.NoError(s, s.node.Reorg(len(s.node.Blocks())-cheap, first))
	rec := p.mineUntil(b, batch.Committed)
	r, err := evm.ReadReceipt(rec.Receipts[0])
	require.NoError(s, err)
	assert.Equal(s, hashes[0], r.Hash)
	assert.Equal(s, []int64{10}, s.valuesPaid(from))
}

// signedBytesOf returns the first transaction in the slot of a payment, encoded.
func (s *testChain) signedBytesOf(from evmtest.Account, a batch.Attempt, kept []byte) []byte {
	nonce, fees, hashes, err := evm.Slot(kept)
	require.NoError(s, err)
	raw, hash := from.Sign(evmtest.Unsigned{
		ChainID: s.chain, Nonce: nonce, Tip: fees[0].Tip, FeeCap: fees[0].FeeCap, Gas: 21000, To: evmtest.Dev(9).Address(), Value: big.NewInt(10),
	})
	require.Equal(s, hashes[0], hash, "%s", a.Key)
	return raw
}

// Submit reports "nonce too low" as doubt, even if a deep block proves which transaction used the
// nonce: the statuses report Void.
func usedNonceIsDoubt(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	client := s.newSigningClient(finalAfterTwoBlocks(), s.newKeySigner(from))
	b := s.newIntent(from, 10)
	a := batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}
	for range 10 { // the backend that answers may be behind
		kept, err := client.Prepare(context.Background(), a)
		if a.Prepared = kept; err == nil {
			break
		}
	}
	s.sendForeign(s.newPayment(from, 0, 99))
	s.mine(8)
	for i := range 3 {
		a.Number = 1 + i
		require.Equal(s, batch.KindDoubt, dlt.Kind(client.Submit(context.Background(), a)))
	}
}

// The receipts of a node are behind its counts, and a deep block has the payment itself: this
// block is no proof against the payment. (OpenZeppelin 817.)
func ownDeepPaymentIsNotVoid(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	client := s.newSigningClient(finalAfterTwoBlocks(), s.newKeySigner(from))
	b := s.newIntent(from, 10)
	a := batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}
	for range 10 { // the backend that answers may be behind
		kept, err := client.Prepare(context.Background(), a)
		if a.Prepared = kept; err == nil {
			break
		}
	}
	require.NoError(s, client.Submit(context.Background(), a))
	s.mine(6)
	blind := &http.Client{Transport: receiptRemover{s.http.Transport}}
	other := finalAfterTwoBlocks()
	other.Client = blind
	behind := s.newSigningClient(other, s.newKeySigner(from))
	for range 10 {
		st, err := behind.BatchStatuses(context.Background(), b.Service, []batch.Attempt{a})
		require.NoError(s, err)
		for _, one := range st {
			require.NotEqual(s, batch.ReportedVoid, one.Reported, one.Message)
		}
	}
}

// receiptRemover makes a node answer that it knows no transaction by its hash.
type receiptRemover struct{ http.RoundTripper }

func (w receiptRemover) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	nowhere := "0x" + strings.Repeat("00", 32)
	body = lookupByHash.ReplaceAll(body, []byte(`"method":"${1}","params":["`+nowhere+`"]`))
	again := r.Clone(r.Context())
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return w.RoundTripper.RoundTrip(again)
}

var lookupByHash = regexp.MustCompile(`"method":"(eth_getTransactionReceipt|eth_getTransactionByHash)","params":\["0x[0-9a-f]{64}"\]`)

// A node has lost the lists and receipts of its blocks, and still has their headers and the state:
// the account's nonce is used, and the node does not show by which transaction. That is no proof,
// and the payment is made once.
func blocksWithoutLists(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	var lost atomic.Bool
	o := finalAfterTwoBlocks()
	o.Client = &http.Client{Transport: txListRemover{s.http.Transport, &lost}}
	p, k := s.runIntents(o, from)
	b := s.newIntent(from, 10)
	p.add(b)
	p.waitForState(b, batch.Pending)
	lost.Store(true)
	s.mine(6)
	require.Equal(s, []int64{10}, s.valuesPaid(from))
	p.requireNeverInState(b, 60, batch.Committed, batch.Invalid, batch.Rejected)
	lost.Store(false)
	p.mineUntil(b, batch.Committed)
	nonce, _, _ := k.lastSlot(s, b)
	assert.Zero(s, nonce)
	assert.Equal(s, []int64{10}, s.valuesPaid(from))
}

// txListRemover makes a node answer that it knows no transaction by its hash, and empties its
// blocks' lists of transactions.
type txListRemover struct {
	http.RoundTripper
	isEnabled *atomic.Bool
}

func (w txListRemover) RoundTrip(r *http.Request) (*http.Response, error) {
	if !w.isEnabled.Load() {
		return w.RoundTripper.RoundTrip(r)
	}
	resp, err := receiptRemover{w.RoundTripper}.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	text, err = json.Marshal(emptyTxLists(doc))
	if err != nil {
		return nil, err
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	resp.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return resp, nil
}

// emptyTxLists empties each list of transactions in a JSON document.
func emptyTxLists(doc any) any {
	switch v := doc.(type) {
	case []any:
		for i := range v {
			v[i] = emptyTxLists(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = emptyTxLists(v[name])
		}
		if _, is := v["transactions"].([]any); is {
			v["transactions"] = []any{}
		}
	}
	return doc
}

// At the limit of fees a transaction is replaced no more, and after StuckAfter the reason is
// reported. Once the base fee falls, the payment is made.
func feeLimitAsksForADecision(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	o := finalAfterTwoBlocks()
	o.MaxFeePerGas = big.NewInt(5e9)
	p, k := s.runIntents(o, from)
	b := s.newIntent(from, 10)
	p.add(b)
	p.waitForState(b, batch.Pending)
	for range 5000 {
		s.setBaseFee(50)
		s.mine(1)
		time.Sleep(8 * s.timeUnit)
		if p.record(b).Decision != "" {
			break
		}
	}
	rec := p.record(b)
	require.NotEmpty(s, rec.Decision)
	assert.Regexp(s, "gwei|base fee", rec.Decision)
	for _, kept := range k.preparedOf(b) {
		_, fees, _, err := evm.Slot(kept)
		require.NoError(s, err)
		for _, f := range fees {
			assert.LessOrEqual(s, f.FeeCap.Cmp(big.NewInt(5e9)), 0)
		}
	}
	s.setBaseFee(1)
	p.mineUntil(b, batch.Committed)
	assert.Equal(s, []int64{10}, s.valuesPaid(from))
}

// Replacements do not use up a budget in which every try counts, as in auto-batching.
func bumpSpendsNoBudget(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	p, k := s.runIntents(finalAfterTwoBlocks(), from)
	b := s.newIntent(from, 10)
	b.Budget = batch.Budget{Attempts: 2, EveryTry: true}
	p.add(b)
	p.waitForState(b, batch.Pending)
	for range 60 { // the base fee keeps rising
		_, fees, _ := k.lastSlot(s, b)
		if len(fees) > 4 {
			break
		}
		limit := new(big.Int).Div(fees[len(fees)-1].FeeCap, big.NewInt(1e9)).Int64()
		s.setBaseFee(limit + 10)
		s.mine(1)
		time.Sleep(8 * s.timeUnit)
		require.False(s, p.record(b).Final(), "%v", p.record(b).Error)
	}
	s.setBaseFee(1)
	p.mineUntil(b, batch.Committed)
	_, fees, _ := k.lastSlot(s, b)
	assert.Greater(s, len(fees), 2)
	assert.Equal(s, []int64{10}, s.valuesPaid(from))
}

func intentReverts(s *testChain) {
	from := s.newAccount()
	at := s.deployRevertingContract(from)
	p, _ := s.runIntents(finalAfterTwoBlocks(), from)
	bad, good := s.newIntentOf(from, evm.Intent{To: at, Gas: 100_000}), s.newIntent(from, 10)
	p.add(bad, good)
	rec := p.mineUntil(bad, batch.Invalid)
	r, err := evm.ReadReceipt(rec.Receipts[0])
	require.NoError(s, err)
	assert.True(s, r.Reverted)
	p.mineUntil(good, batch.Committed)
}

func intentWouldRevert(s *testChain) {
	from := s.newAccount()
	at := s.deployRevertingContract(from)
	p, k := s.runIntents(finalAfterTwoBlocks(), from)
	bad, good := s.newIntentOf(from, evm.Intent{To: at}), s.newIntentOf(from, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(10)})
	p.add(bad, good)
	rec := p.mineUntil(bad, batch.Rejected)
	assert.ErrorContains(s, rec.Error, "revert")
	assert.Empty(s, k.preparedOf(bad), "nothing was posted")
	p.mineUntil(good, batch.Committed)
}

// deployRevertingContract creates a contract that reverts every call, and waits until the
// contract's block is deep.
func (s *testChain) deployRevertingContract(from evmtest.Account) string {
	raw, hash := from.Sign(evmtest.Unsigned{ChainID: s.chain, Gas: 200_000, Data: evmtest.Reverting()})
	s.call(nil, "eth_sendRawTransaction", toHex(raw))
	s.mine(6)
	var r struct{ ContractAddress string }
	s.call(&r, "eth_getTransactionReceipt", hash)
	require.NotEmpty(s, r.ContractAddress)
	return r.ContractAddress
}

func intentReorgBeforeDeep(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	p, _ := s.runIntents(evm.SignerOptions{Options: evm.Options{Finality: evm.After(5)}}, from)
	b := s.newIntent(from, 10)
	p.add(b)
	p.waitForState(b, batch.Pending)
	s.mine(2)
	p.waitForState(b, batch.Valid)
	s.reorg(3)
	p.mineUntil(b, batch.Committed)
	assert.Equal(s, []int64{10}, s.valuesPaid(from))
}

func intentFundsRunOut(s *testChain) {
	from := s.newAccountWith(big.NewInt(1000))
	p, _ := s.runIntents(finalAfterTwoBlocks(), from)
	b := s.newIntent(from, 10)
	p.add(b)
	rec := p.waitForState(b, batch.Delayed)
	assert.Equal(s, batch.KindNotYet, rec.Error.Kind, "%v", rec.Error)
	p.requireNeverInState(b, 20, batch.Rejected)
	s.control.fund(from.Address(), evmtest.Ether(1))
	p.mineUntil(b, batch.Committed)
	assert.Equal(s, []int64{10}, s.valuesPaid(from))
}

func intentNodeKilledUnmines(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	p, k := s.runIntents(evm.SignerOptions{Options: evm.Options{Finality: evm.After(6)}}, from)
	b := s.newIntent(from, 10)
	p.add(b)
	p.waitForState(b, batch.Pending)
	s.mine(1)
	p.waitForState(b, batch.Valid)
	s.node.Kill()
	time.Sleep(s.timeUnit)
	require.NoError(s, s.node.Resume())
	p.mineUntil(b, batch.Committed)
	nonce, _, _ := k.lastSlot(s, b)
	assert.Zero(s, nonce)
	assert.Equal(s, []int64{10}, s.valuesPaid(from))
}

// A node may hold a transaction back from its blocks for ever, and ignores the same bytes when
// they are sent again. An intent is then replaced at the same nonce. For a signed transaction the
// status says so, so that a person can send another one of the nonce.
func TestAStatusSaysThatAnIntentIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Anvil, SlotsInAnEpoch: 1})
		s.mine(4)
		from, other := s.newAccount(), s.newAccount()
		p, k := s.runIntents(finalAfterTwoBlocks(), from)
		b := s.newIntent(from, 10)
		p.add(b)
		p.waitForState(b, batch.Pending)
		_, _, hashes := k.lastSlot(s, b)
		require.True(t, s.node.HoldBack(hashes[0]))
		p.mineUntil(b, batch.Committed)
		nonce, fees, _ := k.lastSlot(s, b)
		assert.Zero(t, nonce)
		assert.Len(t, fees, 2)
		assert.Equal(t, []int64{10}, s.valuesPaid(from))

		c := s.newClient(evm.Options{Finality: evm.After(2)})
		first, next := s.newPayment(other, 0, 20), s.newPayment(other, 1, 21)
		for _, b := range []batch.Batch{first, next} {
			require.NoError(t, c.Submit(t.Context(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}))
		}
		require.True(t, s.node.HoldBack(string(first.ID)))
		require.NoError(t, c.Submit(t.Context(), batch.Attempt{Key: first.Key(), Number: 2, Payload: first.Payload}), "already known")
		s.mine(3)
		assert.Empty(t, s.executedHashes(other))
		st, err := c.BatchStatuses(t.Context(), first.Service, []batch.Attempt{{Key: first.Key()}, {Key: next.Key()}})
		require.NoError(t, err)
		by := map[batch.ID]batch.Status{}
		for _, one := range st {
			by[one.ID] = one
		}
		assert.Equal(t, batch.ReportedPending, by[first.ID].Reported)
		assert.Contains(t, by[first.ID].Message, "the node holds it back from its blocks")
		assert.Equal(t, batch.ReportedUnknown, by[next.ID].Reported, "behind it")
		s.sendForeign(s.signPayment(other, evmtest.Unsigned{To: evmtest.Dev(9).Address(), Value: big.NewInt(22), Tip: big.NewInt(5e9), FeeCap: big.NewInt(90e9)}))
		s.mine(4)
		assert.Equal(t, []int64{22, 21}, s.valuesPaid(other))
		found, err := c.Resolve(t.Context(), dlt.Doubt{Attempt: batch.Attempt{Key: first.Key(), Payload: first.Payload}})
		require.NoError(t, err)
		assert.Equal(t, dlt.NotCommitted, found)
	})
}
