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

// intentPlays are the plays with a SigningClient.
var intentPlays = map[string]play{
	"IntentsAreExecutedInOrder":       {do: intentsInOrder},
	"IntentForeignTakesNonce":         {do: intentForeignTakesNonce},
	"IntentForeignUnfinalThenReorged": {do: intentForeignUnfinal},
	"NonceAboveUnfinalForeign":        {do: nonceAboveUnfinal},
	"IntentNonceTooLowNeverRenonces":  {do: intentNonceTooLow, inside: true},
	"BumpBothFees":                    {do: bumpBothFees},
	"ReplacedButOldOneMined":          {do: replacedButOldOneMined, inside: true},
	"UsedNonceIsDoubt":                {do: usedNonceIsDoubt},
	"VoidKnowsItsOwn":                 {do: voidKnowsItsOwn},
	"BlocksWithoutTheirLists":         {do: blocksWithoutLists},
	"LimitOfFeesNeedsADecision":       {do: limitOfFees},
	"BumpDoesNotSpendBudget":          {do: bumpSpendsNothing, not: evmtest.Anvil, why: "it forgets what is too cheap, and to send that again is a try"},
	"IntentRevertIsInvalidWhenDeep":   {do: intentReverts},
	"IntentIsRejectedWhereItReverts":  {do: intentWouldRevert},
	"IntentReorgBeforeDeep":           {do: intentReorg},
	"IntentFundsRunOutAndComeBack":    {do: intentFunds},
	"TwoPreparesOneSlot":              {do: twoPreparesOneSlot},
	"CrashAtEveryStep":                {do: crashAtEveryStep},
	"EqualIntentsAreTwoPayments":      {do: equalIntents},
	"NoHigherFeesForWhatIsForgotten":  {do: noHigherFees},
	"IntentPoolForgetsTenSeconds":     {do: intentPoolForgets, inside: true, not: evmtest.Anvil, why: "its pool is not kept"},
	"IntentAcceptedAndDropped":        {do: intentAcceptedAndDropped},
	"IntentEndedByAPerson":            {do: intentEndedByAPerson},
	"IntentNodeKilledUnmines":         {do: intentUnmined, inside: true, not: evmtest.Anvil, why: "it does not put back what it un-mined"},
}

// signing returns a SigningClient with this signer.
func (s *stage) signing(o evm.SignerOptions, signer evm.Signer) *evm.SigningClient {
	if o.Client == nil {
		o.Client = s.http
	}
	if s.node == nil { // in real time
		o.Grace, o.LateArrival = 10*s.unit, 10*s.unit
	}
	c, err := evm.NewSigner(s.url, s.chain, signer, &o)
	require.NoError(s, err)
	return c
}

func (s *stage) keys(accounts ...evmtest.Account) *evm.KeySigner {
	var keys [][]byte
	for _, a := range accounts {
		keys = append(keys, a.Key())
	}
	signer, err := evm.NewKeySigner(keys...)
	require.NoError(s, err)
	return signer
}

// slots remembers the prepared bytes of each batch, attempt by attempt.
type slots struct {
	mu sync.Mutex
	of map[batch.ID][][]byte
}

func (k *slots) see(a batch.Attempt) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil {
		k.of = map[batch.ID][][]byte{}
	}
	k.of[a.ID] = append(k.of[a.ID], slices.Clone(a.Prepared))
}

func (k *slots) all(b batch.Batch) [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.of[b.ID])
}

// last returns the content of a batch's slot at the last post.
func (k *slots) last(t testing.TB, b batch.Batch) (nonce uint64, fees []evm.Fee, hashes []string) {
	t.Helper()
	all := k.all(b)
	require.NotEmpty(t, all)
	nonce, fees, hashes, err := evm.Slot(all[len(all)-1])
	require.NoError(t, err)
	return nonce, fees, hashes
}

// seeing returns the ledger l, and records each post in k.
func seeing(l dlt.Ledger, k *slots) dlt.Ledger {
	return hooked.Wrap(l, hooked.Hooks{Submit: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) error) error {
		k.see(a)
		return next(ctx, a)
	}})
}

// execute starts a Runner for the intents of some accounts.
func (s *stage) execute(o evm.SignerOptions, accounts ...evmtest.Account) (*playing, *slots) {
	k := &slots{}
	return s.runLedger(memory.New(), seeing(s.signing(o, s.keys(accounts...)), k), queuer.Serial()), k
}

// intent returns a payment. No other payment has its value, so the chain shows whether it was
// made.
func (s *stage) intent(from evmtest.Account, value int64) batch.Batch {
	return s.intentTo(from, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(value), Gas: 21000})
}

func (s *stage) intentTo(from evmtest.Account, i evm.Intent) batch.Batch {
	s.id++
	b, err := i.Batch(batch.ID("intent "+strconv.Itoa(s.id)), from.Address())
	require.NoError(s, err)
	return b
}

// paid returns the values of an account's transactions on the chain, in order.
func (s *stage) paid(from evmtest.Account) (values []int64) { return s.paidFrom(from.Address()) }

func (s *stage) paidFrom(address string) (values []int64) {
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

func (s *stage) setBaseFee(gwei int64) {
	s.steering.setBaseFee(new(big.Int).Mul(big.NewInt(gwei), big.NewInt(1e9)))
}

// mineUntil makes blocks until the batch is in one of the states in want.
func (p *playing) mineUntil(b batch.Batch, want ...batch.State) batch.Record {
	p.Helper()
	var rec batch.Record
	for range 500 {
		if rec = p.record(b); slices.Contains(want, rec.State) {
			return rec
		}
		time.Sleep(4 * p.unit)
		p.mine(1)
	}
	require.Contains(p, want, rec.State, "%s after attempt %d: %v %s", b.Key(), rec.Attempt, rec.Error, rec.Decision)
	return rec
}

func afterTwo() evm.SignerOptions {
	return evm.SignerOptions{Options: evm.Options{Finality: evm.After(2)}}
}

// TestIntentPlays runs all plays of intents on three kinds of nodes, in virtual time.
func TestIntentPlays(t *testing.T) {
	tier.Long(t)
	tier.Plain(t)
	playAll(t, intentPlays, false)
}

func intentsInOrder(s *stage) {
	from, other := s.account(), s.account()
	p, k := s.execute(afterTwo(), from, other)
	var all []batch.Batch
	for i := range int64(4) {
		all = append(all, s.intent(from, 10+i), s.intent(other, 20+i))
	}
	p.add(all...)
	for i, b := range all {
		rec := p.mineUntil(b, batch.Committed)
		r, err := evm.ReadReceipt(rec.Receipts[0])
		require.NoError(s, err)
		nonce, _, hashes := k.last(s, b)
		assert.EqualValues(s, i/2, nonce)
		assert.Contains(s, hashes, r.Hash)
		for _, never := range []batch.State{batch.Invalid, batch.Rejected} {
			assert.NotContains(s, p.seen.states(b), never)
		}
	}
	assert.Equal(s, []int64{10, 11, 12, 13}, s.paid(from), "each once, in the order of the lane")
	assert.Equal(s, []int64{20, 21, 22, 23}, s.paid(other))
}

// Another wallet uses the nonce: once that is deep, the batch gets another nonce, and is executed
// once. (rrelayer 36 answered "nonce too low" for ever.)
func intentForeignTakesNonce(s *stage) {
	from := s.account()
	s.mine(4)
	p, k := s.execute(afterTwo(), from)
	b := s.intent(from, 10)
	p.add(b)
	p.becomes(b, batch.Pending)
	nonce, _, hashes := k.last(s, b)
	require.Zero(s, nonce)
	s.drop(batch.Batch{ID: batch.ID(hashes[0])})
	s.foreign(s.pay(from, 0, 99))
	p.mineUntil(b, batch.Committed)
	nonce, _, _ = k.last(s, b)
	assert.EqualValues(s, 1, nonce)
	assert.Equal(s, []int64{99, 10}, s.paid(from))
}

// Another wallet's transaction of the same nonce is taken back before it is deep: the batch keeps
// its nonce.
func intentForeignUnfinal(s *stage) {
	from := s.account()
	s.mine(4)
	p, k := s.execute(evm.SignerOptions{Options: evm.Options{Finality: evm.After(6)}}, from)
	b := s.intent(from, 10)
	p.add(b)
	p.becomes(b, batch.Pending)
	_, _, hashes := k.last(s, b)
	s.drop(batch.Batch{ID: batch.ID(hashes[0])})
	s.foreign(s.pay(from, 0, 99))
	s.mine(3)
	p.stays(b, 60, batch.Committed, batch.Rejected, batch.Invalid)
	s.reorg(3)
	for n := range 200 {
		if n == 0 || s.node != nil { // on geth only once, since nobody else has the transaction that geth puts back into its pool
			s.steering.forget()
		}
		if _, pending := s.nonce(from); pending == 1 {
			break
		}
		time.Sleep(s.unit)
	}
	p.mineUntil(b, batch.Committed)
	nonce, _, _ := k.last(s, b)
	assert.Zero(s, nonce)
	if got := s.paid(from); s.node == nil || !slices.Equal(got, []int64{99, 10}) {
		assert.Equal(s, []int64{10}, got)
	}
}

// While somebody else's transaction of the account is under way, no higher nonce is used, so that
// no gap can arise.
func nonceAboveUnfinal(s *stage) {
	from, other := s.account(), s.account()
	s.mine(4)
	s.foreign(s.pay(from, 0, 99))
	p, k := s.execute(afterTwo(), from, other)
	b, of := s.intent(from, 10), s.intent(other, 20)
	p.add(b, of)
	rec := p.becomes(b, batch.Delayed)
	require.Equal(s, batch.KindNotYet, rec.Error.Kind)
	assert.ErrorContains(s, rec.Error, "the ")
	if !s.lagging { // else the backend that answers may be behind
		assert.ErrorContains(s, rec.Error, "the account has transactions under way")
	}
	p.becomes(of, batch.Pending)
	assert.Empty(s, k.all(b), "nothing was posted")
	s.mine(1)
	p.stays(b, 40, batch.Pending, batch.Committed)
	p.mineUntil(b, batch.Committed)
	assert.Equal(s, []int64{99, 10}, s.paid(from))
	assert.Equal(s, []int64{20}, s.paid(other))
}

// The answer to a send is lost, the transaction is mined, and the bytes are sent again: "nonce too
// low" does not lead to another nonce. (Alto 747.)
func intentNonceTooLow(s *stage) {
	sent := 0
	s.fault(func(p evmtest.RequestPoint) evmtest.Fault {
		if p.Method != "eth_sendRawTransaction" {
			return evmtest.Fault{}
		}
		if sent++; sent == 1 {
			return evmtest.Fault{Answer: evmtest.AnswerReset, Acceptance: evmtest.AcceptedFirst}
		}
		return evmtest.Fault{}
	})
	s.hidden.Store(true) // no question finds the transaction
	from := s.account()
	s.mine(4)
	p, k := s.execute(afterTwo(), from)
	b := s.intent(from, 10)
	p.add(b)
	p.becomes(b, batch.Submitting, batch.Pending, batch.Unknown)
	s.mine(5)
	for range 1000 {
		if p.record(b).Attempt > 3 {
			break
		}
		time.Sleep(s.unit)
	}
	s.hidden.Store(false)
	p.mineUntil(b, batch.Committed)
	for _, kept := range k.all(b) {
		assert.Equal(s, k.all(b)[0], kept, "what is mined is not replaced")
	}
	assert.Equal(s, []int64{10}, s.paid(from))
}

// A transaction that waits too long is replaced at the same nonce, with both fees raised. (Rundler
// 550 raised one of them.)
func bumpBothFees(s *stage) {
	from := s.account()
	s.mine(4)
	p, k := s.execute(afterTwo(), from)
	b := s.intent(from, 10)
	p.add(b)
	p.becomes(b, batch.Pending)
	s.setBaseFee(50)
	p.mineUntil(b, batch.Committed)
	nonce, fees, _ := k.last(s, b)
	assert.Zero(s, nonce)
	require.Greater(s, len(fees), 1)
	for i, f := range fees[1:] {
		for _, pair := range [][2]*big.Int{{fees[i].Tip, f.Tip}, {fees[i].FeeCap, f.FeeCap}} {
			assert.GreaterOrEqual(s, new(big.Int).Mul(pair[1], big.NewInt(100)).Cmp(new(big.Int).Mul(pair[0], big.NewInt(110))), 0, "%s after %s", pair[1], pair[0])
		}
	}
	for i, kept := range k.all(b)[1:] {
		assert.Equal(s, k.all(b)[i], kept[:len(k.all(b)[i])], "it grows by appending")
	}
	assert.Equal(s, []int64{10}, s.paid(from))
}

// A signer refuses higher fees. The batch waits, and shows the signer's error, as long as the node
// has the last transaction. Once all nodes have forgotten it, that transaction goes out again
// unchanged, even if Fees asks for more.
func noHigherFees(s *stage) {
	from := s.account()
	s.mine(4)
	good, k := s.keys(from), &slots{}
	var most atomic.Pointer[big.Int]
	p := s.runLedger(memory.New(), seeing(s.signing(afterTwo(), signerFunc(func(ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error) {
		most.CompareAndSwap(nil, tx.Fee.FeeCap)
		if tx.Fee.FeeCap.Cmp(most.Load()) > 0 {
			return [65]byte{}, errors.New("over the daily limit")
		}
		return good.Sign(ctx, account, tx)
	})), k), queuer.Serial())
	b := s.intent(from, 10)
	p.add(b)
	p.becomes(b, batch.Pending)
	_, _, hashes := k.last(s, b)
	var rec batch.Record
	for range 200 {
		s.setBaseFee(50)
		s.mine(1)
		time.Sleep(4 * s.unit)
		if rec = p.record(b); rec.Error != nil && strings.Contains(rec.Error.Error(), "over the daily limit") {
			break
		}
	}
	require.ErrorContains(s, rec.Error, "over the daily limit")
	s.drop(batch.Batch{ID: batch.ID(hashes[0])})
	for range 500 {
		s.setBaseFee(1)
		s.mine(1)
		time.Sleep(4 * s.unit)
		if p.record(b).State == batch.Committed {
			break
		}
	}
	require.Equal(s, batch.Committed, p.record(b).State, "%v", p.record(b).Error)
	_, fees, _ := k.last(s, b)
	assert.Len(s, fees, 1)
	assert.Equal(s, []int64{10}, s.paid(from))
}

// While the replacement is in the pool, the replaced transaction is mined on another fork: the
// batch is committed by it.
func replacedButOldOneMined(s *stage) {
	from := s.account()
	s.mine(4)
	var first []byte
	client := s.signing(afterTwo(), s.keys(from))
	k := &slots{}
	ledger := hooked.Wrap(seeing(client, k), hooked.Hooks{Prepare: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) ([]byte, error)) ([]byte, error) {
		out, err := next(ctx, a)
		if first == nil && err == nil {
			first = s.rawOf(from, a, out)
		}
		return out, err
	}})
	p := s.runLedger(memory.New(), ledger, queuer.Serial())
	b := s.intent(from, 10)
	p.add(b)
	p.becomes(b, batch.Pending)
	cheap := len(s.node.Blocks())
	for range 200 {
		if _, fees, _ := k.last(s, b); len(fees) > 1 {
			break
		}
		time.Sleep(4 * s.unit)
		s.setBaseFee(50)
		s.mine(1)
	}
	_, fees, hashes := k.last(s, b)
	require.Greater(s, len(fees), 1)
	s.setBaseFee(1) // anvil keeps its base fee otherwise
	require.NoError(s, s.node.Reorg(len(s.node.Blocks())-cheap, first))
	rec := p.mineUntil(b, batch.Committed)
	r, err := evm.ReadReceipt(rec.Receipts[0])
	require.NoError(s, err)
	assert.Equal(s, hashes[0], r.Hash)
	assert.Equal(s, []int64{10}, s.paid(from))
}

// rawOf returns the first transaction in the slot of a payment, encoded.
func (s *stage) rawOf(from evmtest.Account, a batch.Attempt, kept []byte) []byte {
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
func usedNonceIsDoubt(s *stage) {
	from := s.account()
	s.mine(4)
	client := s.signing(afterTwo(), s.keys(from))
	b := s.intent(from, 10)
	a := batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}
	for range 10 { // the backend that answers may be behind
		kept, err := client.Prepare(context.Background(), a)
		if a.Prepared = kept; err == nil {
			break
		}
	}
	s.foreign(s.pay(from, 0, 99))
	s.mine(8)
	for i := range 3 {
		a.Number = 1 + i
		require.Equal(s, batch.KindDoubt, dlt.Kind(client.Submit(context.Background(), a)))
	}
}

// The receipts of a node are behind its counts, and a deep block has the payment itself: this
// block is no proof against the payment. (OpenZeppelin 817.)
func voidKnowsItsOwn(s *stage) {
	from := s.account()
	s.mine(4)
	client := s.signing(afterTwo(), s.keys(from))
	b := s.intent(from, 10)
	a := batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}
	for range 10 { // the backend that answers may be behind
		kept, err := client.Prepare(context.Background(), a)
		if a.Prepared = kept; err == nil {
			break
		}
	}
	require.NoError(s, client.Submit(context.Background(), a))
	s.mine(6)
	blind := &http.Client{Transport: withoutReceipts{s.http.Transport}}
	other := afterTwo()
	other.Client = blind
	behind := s.signing(other, s.keys(from))
	for range 10 {
		st, err := behind.BatchStatuses(context.Background(), b.Service, []batch.Attempt{a})
		require.NoError(s, err)
		for _, one := range st {
			require.NotEqual(s, batch.ReportedVoid, one.Reported, one.Message)
		}
	}
}

// withoutReceipts makes a node answer that it knows no transaction by its hash.
type withoutReceipts struct{ http.RoundTripper }

func (w withoutReceipts) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	nowhere := "0x" + strings.Repeat("00", 32)
	body = byHash.ReplaceAll(body, []byte(`"method":"${1}","params":["`+nowhere+`"]`))
	again := r.Clone(r.Context())
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return w.RoundTripper.RoundTrip(again)
}

var byHash = regexp.MustCompile(`"method":"(eth_getTransactionReceipt|eth_getTransactionByHash)","params":\["0x[0-9a-f]{64}"\]`)

// A node has lost the lists and receipts of its blocks, and still has their headers and the state:
// the account's nonce is used, and the node does not show by which transaction. That is no proof,
// and the payment is made once.
func blocksWithoutLists(s *stage) {
	from := s.account()
	s.mine(4)
	var lost atomic.Bool
	o := afterTwo()
	o.Client = &http.Client{Transport: withoutLists{s.http.Transport, &lost}}
	p, k := s.execute(o, from)
	b := s.intent(from, 10)
	p.add(b)
	p.becomes(b, batch.Pending)
	lost.Store(true)
	s.mine(6)
	require.Equal(s, []int64{10}, s.paid(from))
	p.stays(b, 60, batch.Committed, batch.Invalid, batch.Rejected)
	lost.Store(false)
	p.mineUntil(b, batch.Committed)
	nonce, _, _ := k.last(s, b)
	assert.Zero(s, nonce)
	assert.Equal(s, []int64{10}, s.paid(from))
}

// withoutLists makes a node answer that it knows no transaction by its hash, and empties its
// blocks' lists of transactions.
type withoutLists struct {
	http.RoundTripper
	on *atomic.Bool
}

func (w withoutLists) RoundTrip(r *http.Request) (*http.Response, error) {
	if !w.on.Load() {
		return w.RoundTripper.RoundTrip(r)
	}
	resp, err := withoutReceipts{w.RoundTripper}.RoundTrip(r)
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
	text, err = json.Marshal(unlisted(doc))
	if err != nil {
		return nil, err
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	resp.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return resp, nil
}

// unlisted empties each list of transactions in a JSON document.
func unlisted(doc any) any {
	switch v := doc.(type) {
	case []any:
		for i := range v {
			v[i] = unlisted(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = unlisted(v[name])
		}
		if _, is := v["transactions"].([]any); is {
			v["transactions"] = []any{}
		}
	}
	return doc
}

// At the limit of fees a transaction is replaced no more, and after StuckAfter the reason is
// reported. Once the base fee falls, the payment is made.
func limitOfFees(s *stage) {
	from := s.account()
	s.mine(4)
	o := afterTwo()
	o.MaxFeePerGas = big.NewInt(5e9)
	p, k := s.execute(o, from)
	b := s.intent(from, 10)
	p.add(b)
	p.becomes(b, batch.Pending)
	for range 5000 {
		s.setBaseFee(50)
		s.mine(1)
		time.Sleep(8 * s.unit)
		if p.record(b).Decision != "" {
			break
		}
	}
	rec := p.record(b)
	require.NotEmpty(s, rec.Decision)
	assert.Regexp(s, "gwei|base fee", rec.Decision)
	for _, kept := range k.all(b) {
		_, fees, _, err := evm.Slot(kept)
		require.NoError(s, err)
		for _, f := range fees {
			assert.LessOrEqual(s, f.FeeCap.Cmp(big.NewInt(5e9)), 0)
		}
	}
	s.setBaseFee(1)
	p.mineUntil(b, batch.Committed)
	assert.Equal(s, []int64{10}, s.paid(from))
}

// Replacements do not use up a budget in which every try counts, as in auto-batching.
func bumpSpendsNothing(s *stage) {
	from := s.account()
	s.mine(4)
	p, k := s.execute(afterTwo(), from)
	b := s.intent(from, 10)
	b.Budget = batch.Budget{Attempts: 2, EveryTry: true}
	p.add(b)
	p.becomes(b, batch.Pending)
	for range 60 { // the base fee keeps rising
		_, fees, _ := k.last(s, b)
		if len(fees) > 4 {
			break
		}
		limit := new(big.Int).Div(fees[len(fees)-1].FeeCap, big.NewInt(1e9)).Int64()
		s.setBaseFee(limit + 10)
		s.mine(1)
		time.Sleep(8 * s.unit)
		require.False(s, p.record(b).Final(), "%v", p.record(b).Error)
	}
	s.setBaseFee(1)
	p.mineUntil(b, batch.Committed)
	_, fees, _ := k.last(s, b)
	assert.Greater(s, len(fees), 2)
	assert.Equal(s, []int64{10}, s.paid(from))
}

func intentReverts(s *stage) {
	from := s.account()
	at := s.reverting(from)
	p, _ := s.execute(afterTwo(), from)
	bad, good := s.intentTo(from, evm.Intent{To: at, Gas: 100_000}), s.intent(from, 10)
	p.add(bad, good)
	rec := p.mineUntil(bad, batch.Invalid)
	r, err := evm.ReadReceipt(rec.Receipts[0])
	require.NoError(s, err)
	assert.True(s, r.Reverted)
	p.mineUntil(good, batch.Committed)
}

func intentWouldRevert(s *stage) {
	from := s.account()
	at := s.reverting(from)
	p, k := s.execute(afterTwo(), from)
	bad, good := s.intentTo(from, evm.Intent{To: at}), s.intentTo(from, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(10)})
	p.add(bad, good)
	rec := p.mineUntil(bad, batch.Rejected)
	assert.ErrorContains(s, rec.Error, "revert")
	assert.Empty(s, k.all(bad), "nothing was posted")
	p.mineUntil(good, batch.Committed)
}

// reverting creates a contract that reverts every call, and waits until the contract's block is
// deep.
func (s *stage) reverting(from evmtest.Account) string {
	raw, hash := from.Sign(evmtest.Unsigned{ChainID: s.chain, Gas: 200_000, Data: evmtest.Reverting()})
	s.call(nil, "eth_sendRawTransaction", toHex(raw))
	s.mine(6)
	var r struct{ ContractAddress string }
	s.call(&r, "eth_getTransactionReceipt", hash)
	require.NotEmpty(s, r.ContractAddress)
	return r.ContractAddress
}

func intentReorg(s *stage) {
	from := s.account()
	s.mine(4)
	p, _ := s.execute(evm.SignerOptions{Options: evm.Options{Finality: evm.After(5)}}, from)
	b := s.intent(from, 10)
	p.add(b)
	p.becomes(b, batch.Pending)
	s.mine(2)
	p.becomes(b, batch.Valid)
	s.reorg(3)
	p.mineUntil(b, batch.Committed)
	assert.Equal(s, []int64{10}, s.paid(from))
}

func intentFunds(s *stage) {
	from := s.accountWith(big.NewInt(1000))
	p, _ := s.execute(afterTwo(), from)
	b := s.intent(from, 10)
	p.add(b)
	rec := p.becomes(b, batch.Delayed)
	assert.Equal(s, batch.KindNotYet, rec.Error.Kind, "%v", rec.Error)
	p.stays(b, 20, batch.Rejected)
	s.steering.fund(from.Address(), evmtest.Ether(1))
	p.mineUntil(b, batch.Committed)
	assert.Equal(s, []int64{10}, s.paid(from))
}

func intentUnmined(s *stage) {
	from := s.account()
	s.mine(4)
	p, k := s.execute(evm.SignerOptions{Options: evm.Options{Finality: evm.After(6)}}, from)
	b := s.intent(from, 10)
	p.add(b)
	p.becomes(b, batch.Pending)
	s.mine(1)
	p.becomes(b, batch.Valid)
	s.node.Kill()
	time.Sleep(s.unit)
	require.NoError(s, s.node.Resume())
	p.mineUntil(b, batch.Committed)
	nonce, _, _ := k.last(s, b)
	assert.Zero(s, nonce)
	assert.Equal(s, []int64{10}, s.paid(from))
}

// A node may hold a transaction back from its blocks for ever, and ignores the same bytes when
// they are sent again. An intent is then replaced at the same nonce. For a signed transaction the
// status says so, so that a person can send another one of the nonce.
func TestHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulated(t, evmtest.Options{Personality: evmtest.Anvil, SlotsInAnEpoch: 1})
		s.mine(4)
		from, other := s.account(), s.account()
		p, k := s.execute(afterTwo(), from)
		b := s.intent(from, 10)
		p.add(b)
		p.becomes(b, batch.Pending)
		_, _, hashes := k.last(s, b)
		require.True(t, s.node.HoldBack(hashes[0]))
		p.mineUntil(b, batch.Committed)
		nonce, fees, _ := k.last(s, b)
		assert.Zero(t, nonce)
		assert.Len(t, fees, 2)
		assert.Equal(t, []int64{10}, s.paid(from))

		c := s.client(evm.Options{Finality: evm.After(2)})
		first, next := s.pay(other, 0, 20), s.pay(other, 1, 21)
		for _, b := range []batch.Batch{first, next} {
			require.NoError(t, c.Submit(t.Context(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}))
		}
		require.True(t, s.node.HoldBack(string(first.ID)))
		require.NoError(t, c.Submit(t.Context(), batch.Attempt{Key: first.Key(), Number: 2, Payload: first.Payload}), "already known")
		s.mine(3)
		assert.Empty(t, s.executed(other))
		st, err := c.BatchStatuses(t.Context(), first.Service, []batch.Attempt{{Key: first.Key()}, {Key: next.Key()}})
		require.NoError(t, err)
		by := map[batch.ID]batch.Status{}
		for _, one := range st {
			by[one.ID] = one
		}
		assert.Equal(t, batch.ReportedPending, by[first.ID].Reported)
		assert.Contains(t, by[first.ID].Message, "the node holds it back from its blocks")
		assert.Equal(t, batch.ReportedUnknown, by[next.ID].Reported, "behind it")
		s.foreign(s.sign(other, evmtest.Unsigned{To: evmtest.Dev(9).Address(), Value: big.NewInt(22), Tip: big.NewInt(5e9), FeeCap: big.NewInt(90e9)}))
		s.mine(4)
		assert.Equal(t, []int64{22, 21}, s.paid(other))
		found, err := c.Resolve(t.Context(), dlt.Doubt{Attempt: batch.Attempt{Key: first.Key(), Payload: first.Payload}})
		require.NoError(t, err)
		assert.Equal(t, dlt.NotCommitted, found)
	})
}
