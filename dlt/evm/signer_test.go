package evm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

type signerFunc func(ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error)

func (f signerFunc) Sign(ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error) {
	return f(ctx, account, tx)
}

// When a Signer or Fees fails in any way, nothing is stored and nothing is sent. The lane waits
// and shows the reason, and other lanes go on. Once both work, the payment is made.
func TestSignerThatFails(t *testing.T) {
	tier.Plain(t)
	never := make(chan struct{})
	for name, c := range map[string]struct {
		sign     func(good evm.Signer, ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error)
		fees     evm.Fees
		wantText string
	}{
		"refuses": {sign: func(evm.Signer, context.Context, string, evm.Unsigned) (s [65]byte, err error) {
			return s, errors.New("over the daily limit")
		}, wantText: "over the daily limit"},
		"panics": {sign: func(evm.Signer, context.Context, string, evm.Unsigned) ([65]byte, error) { panic("gremlins") }, wantText: "gremlins"},
		"hangs": {sign: func(_ evm.Signer, ctx context.Context, _ string, _ evm.Unsigned) (s [65]byte, err error) {
			<-ctx.Done()
			return s, ctx.Err()
		}, wantText: "deadline exceeded"},
		"hangs for ever": {sign: func(evm.Signer, context.Context, string, evm.Unsigned) (s [65]byte, err error) {
			<-never
			return s, err
		}, wantText: "has not returned"},
		"signs for another account": {sign: func(good evm.Signer, ctx context.Context, _ string, tx evm.Unsigned) ([65]byte, error) {
			return good.Sign(ctx, evmtest.Dev(2).Address(), tx)
		}, wantText: "its signature is of account " + evmtest.Dev(2).Address()},
		"signs other bytes": {sign: func(good evm.Signer, ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error) {
			tx.Hash[0] ^= 1
			return good.Sign(ctx, account, tx)
		}, wantText: "or of other bytes"},
		"signs nothing": {sign: func(evm.Signer, context.Context, string, evm.Unsigned) (s [65]byte, err error) { return s, nil }, wantText: "signer: "},
		"a strange parity": {sign: func(good evm.Signer, ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error) {
			s, err := good.Sign(ctx, account, tx)
			s[64] = 5
			return s, err
		}, wantText: "the last byte of its signature is 5"},
		"fees fail":  {fees: func(context.Context, evm.Market) (f evm.Fee, err error) { return f, errors.New("no oracle") }, wantText: "no oracle"},
		"fees panic": {fees: func(context.Context, evm.Market) (evm.Fee, error) { panic("gremlins") }, wantText: "gremlins"},
		"no fees":    {fees: func(context.Context, evm.Market) (f evm.Fee, err error) { return f, nil }, wantText: "fees: none"},
		"negative fees": {fees: func(context.Context, evm.Market) (evm.Fee, error) {
			return evm.Fee{Tip: big.NewInt(-1), FeeCap: big.NewInt(1)}, nil
		}, wantText: "fees: none, or negative ones"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
				from, other := s.newAccount(), s.newAccount()
				good := s.newKeySigner(from, other, evmtest.Dev(2))
				var isWorking atomic.Bool
				o := finalAfterTwoBlocks()
				if c.fees != nil {
					o.Fees = func(ctx context.Context, m evm.Market) (evm.Fee, error) {
						if m.Account == other.Address() || isWorking.Load() {
							return evm.DefaultFees(ctx, m)
						}
						return c.fees(ctx, m)
					}
				}
				k := &slotRecorder{}
				never = make(chan struct{})
				p := s.startRunnerOf(memory.New(), withSlotRecorder(s.newSigningClient(o, signerFunc(func(ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error) {
					if c.sign == nil || account == other.Address() || isWorking.Load() {
						return good.Sign(ctx, account, tx)
					}
					return c.sign(good, ctx, account, tx)
				})), k), queuer.Serial())
				b, goes := s.newIntent(from, 10), s.newIntent(other, 20)
				p.add(b, goes)
				p.mineUntil(goes, batch.Committed)
				p.requireNeverInState(b, 120, batch.Pending, batch.Rejected)
				rec := p.record(b)
				require.NotNil(t, rec.Error)
				assert.Equal(t, batch.KindNotYet, rec.Error.Kind)
				assert.ErrorContains(t, rec.Error, c.wantText)
				assert.Empty(t, k.preparedOf(b))
				isWorking.Store(true)
				close(never)
				p.mineUntil(b, batch.Committed)
				assert.Equal(t, []int64{10}, s.valuesPaid(from))
			})
		})
	}
}

// A signer that ignores its context holds up neither the call nor other accounts.
func TestASignerThatHangsHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
		from, other := s.newAccount(), s.newAccount()
		good, never := s.newKeySigner(from, other), make(chan struct{})
		c := s.newSigningClient(finalAfterTwoBlocks(), signerFunc(func(ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error) {
			if account == from.Address() {
				<-never
			}
			return good.Sign(ctx, account, tx)
		}))
		prepare := func(a evmtest.Account) (time.Duration, error) {
			b, since := s.newIntent(a, 10), time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := c.Prepare(ctx, batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
			return time.Since(since), err
		}
		for _, says := range []string{"no answer within 5s", "a call of 5s ago has not returned", "has not returned"} {
			took, err := prepare(from)
			require.ErrorContains(t, err, says)
			assert.Equal(t, batch.KindNotYet, dlt.Kind(err))
			assert.LessOrEqual(t, took, evm.DefaultSignTimeout)
			_, err = prepare(other)
			require.NoError(t, err)
		}
		close(never)
		synctest.Wait()
		_, err := prepare(from)
		require.NoError(t, err)
	})
}

// A signer may change the transaction that it gets, and its signature may have s in either half of
// the order, as with many services.
func TestSignerOfAService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
		from := s.newAccount()
		good := s.newKeySigner(from)
		signs := 0
		p := s.startRunnerOf(memory.New(), s.newSigningClient(finalAfterTwoBlocks(), signerFunc(func(ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error) {
			sig, err := good.Sign(ctx, account, tx)
			if signs++; signs%2 == 1 { // s is in the upper half
				var v secp256k1.ModNScalar
				v.SetByteSlice(sig[32:64])
				v.Negate().PutBytesUnchecked(sig[32:64])
				sig[64] ^= 1
			}
			sig[64] += 27
			assert.EqualValues(t, 1337, tx.ChainID)
			assert.Equal(t, evmtest.Dev(9).Address(), tx.To)
			tx.Value.SetInt64(1_000_000)
			tx.Fee.FeeCap.SetInt64(1)
			tx.Bytes[0], tx.Hash[0] = 9, 9
			return sig, err
		})), queuer.Serial())
		for i := range int64(4) {
			b := s.newIntent(from, 10+i)
			p.add(b)
			p.mineUntil(b, batch.Committed)
		}
		assert.Equal(t, []int64{10, 11, 12, 13}, s.valuesPaid(from))
		assert.Equal(t, 4, signs)
	})
}

// After a thousand failed preparations the next nonce is still the chain's. (OpenZeppelin 818 kept
// its own counter, which never went down.)
func TestNoncesNeedNoCounter(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
		from := s.newAccount()
		good, fails := s.newKeySigner(from), 0
		c := s.newSigningClient(finalAfterTwoBlocks(), signerFunc(func(ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error) {
			assert.Zero(t, tx.Nonce)
			if fails++; fails <= 1000 {
				return [65]byte{}, errors.New("not now")
			}
			return good.Sign(ctx, account, tx)
		}))
		b := s.newIntent(from, 10)
		a := batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}
		for range 1000 {
			_, err := c.Prepare(t.Context(), a)
			require.ErrorContains(t, err, "not now")
		}
		for range 3 { // the store decides which bytes are kept, not the first process
			kept, err := c.Prepare(t.Context(), a)
			require.NoError(t, err)
			nonce, _, _, err := evm.Slot(kept)
			require.NoError(t, err)
			assert.Zero(t, nonce)
		}
		_, pending := s.nextNonces(from)
		assert.Zero(t, pending, "nothing was posted")
	})
}

// Only stored transactions are posted. Prepared bytes of another payload are not posted, and make
// no batch void.
func TestOnlyWhatIsKeptIsPosted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
		from := s.newAccount()
		c := s.newSigningClient(finalAfterTwoBlocks(), s.newKeySigner(from))
		b, other := s.newIntent(from, 10), s.newIntent(from, 11)
		kept, err := c.Prepare(t.Context(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
		require.NoError(t, err)
		for name, bad := range map[string]batch.Attempt{
			"nothing is kept": {Key: b.Key(), Number: 1, Payload: b.Payload},
			"another payload": {Key: other.Key(), Number: 1, Payload: other.Payload, Prepared: kept},
			"cut":             {Key: b.Key(), Number: 1, Payload: b.Payload, Prepared: kept[:len(kept)-1]},
			"of a later kind": {Key: b.Key(), Number: 1, Payload: b.Payload, Prepared: append([]byte{2}, kept[1:]...)},
		} {
			err := c.Submit(t.Context(), bad)
			assert.Equal(t, batch.KindNotYet, dlt.Kind(err), "%s: %v", name, err)
			require.ErrorContains(t, err, bad.Key.String(), name)
			if len(bad.Prepared) > 0 {
				_, err = c.Prepare(t.Context(), bad)
				assert.Equal(t, batch.KindNotYet, dlt.Kind(err), "%s: %v", name, err)
				require.ErrorContains(t, err, bad.Key.String(), name)
			}
		}
		_, pending := s.nextNonces(from)
		assert.Zero(t, pending)
		for name, prepared := range map[string][]byte{"cut": kept[:len(kept)-1], "of a later kind": append([]byte{2}, kept[1:]...)} {
			st, err := c.BatchStatuses(t.Context(), b.Service, []batch.Attempt{{Key: b.Key(), Prepared: prepared}})
			assert.Empty(t, st, name)
			assert.NoError(t, err, name)
		}
		st, err := c.BatchStatuses(t.Context(), b.Service, []batch.Attempt{{Key: b.Key()}})
		require.NoError(t, err)
		assert.Equal(t, batch.ReportedVoid, st[0].Reported)
	})
}

// The prepared bytes of one batch cannot be read, for example because a later version wrote them:
// its lane waits, and the reason is reported. No other lane waits.
func TestUnreadableKeptBytesHoldUpOneLane(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
		from, other := s.newAccount(), s.newAccount()
		s.mine(4)
		st, bad := memory.New(), s.newIntent(from, 10)
		require.NoError(t, st.Add(t.Context(), bad))
		claimed, err := st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{bad.Service}, Limit: 1, Window: 1, TTL: time.Second, Instance: "later"},
			func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
		require.NoError(t, err)
		claim := claimed.Runs[0].Batches[0]
		_, err = st.KeepPrepared(t.Context(), []store.Prepared{{Ref: claim.Ref, Version: claim.Version, Bytes: []byte("of a later version")}})
		require.NoError(t, err)
		_, err = st.Record(t.Context(), []store.Outcome{{Ref: claim.Ref, Version: claim.Version, By: batch.BySubmitter, Finding: store.Failed, Attempt: 1}})
		require.NoError(t, err)
		p := s.startRunnerOf(st, s.newSigningClient(finalAfterTwoBlocks(), s.newKeySigner(from, other)), queuer.Serial())
		for i := range 5 {
			good := s.newIntent(other, int64(20+i))
			p.add(good)
			p.mineUntil(good, batch.Committed)
		}
		for range 500 {
			if p.record(bad).Decision != "" {
				break
			}
			time.Sleep(time.Minute)
		}
		assert.Contains(t, p.record(bad).Decision, "batch "+bad.Key().String()+": the kept bytes are no slot")
		assert.Empty(t, p.events.ofKind(batch.EventPaused))
		assert.Empty(t, s.valuesPaid(from))
	})
}

// Void needs another transaction in a deep block. A missing receipt, a count, or a block that is
// not deep is not enough.
func TestVoidOnlyOnProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
		from := s.newAccount()
		s.mine(4)
		c := s.newSigningClient(evm.SignerOptions{Options: evm.Options{Finality: evm.After(3)}}, s.newKeySigner(from))
		b := s.newIntent(from, 10)
		kept, err := c.Prepare(t.Context(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
		require.NoError(t, err)
		is := func(want batch.Reported) string {
			t.Helper()
			st, err := c.BatchStatuses(t.Context(), b.Service, []batch.Attempt{{Key: b.Key(), Prepared: kept}})
			require.NoError(t, err)
			require.Len(t, st, 1)
			assert.Equal(t, want, st[0].Reported)
			return st[0].Message
		}
		is(batch.ReportedUnknown)
		theirs := s.newPayment(from, 0, 99)
		s.sendForeign(theirs)
		is(batch.ReportedUnknown)
		s.mine(1)
		is(batch.ReportedUnknown)
		s.mine(2)
		is(batch.ReportedUnknown)
		s.mine(1)
		assert.Contains(t, is(batch.ReportedVoid), "nonce 0 was used by transaction "+string(theirs.ID))
	})
}

// preparedIntent returns a prepared attempt of an intent of the first account, on a script whose
// last block is 100.
func preparedIntent(t *testing.T, node *scriptedNode, url string, o *evm.SignerOptions) (c *evm.SigningClient, a batch.Attempt, hash string) {
	setBaseFee(node, big.NewInt(1e9), 0)
	signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
	require.NoError(t, err)
	c, err = evm.NewSigner(url, 1337, signer, o)
	require.NoError(t, err)
	a = attempt(intentOf(t, 1, evm.Intent{To: evmtest.Dev(9).Address(), Gas: 21000}), 1)
	a.Prepared, err = c.Prepare(t.Context(), a)
	require.NoError(t, err)
	_, _, hashes, err := evm.Slot(a.Prepared)
	require.NoError(t, err)
	return c, a, hashes[0]
}

// A transaction in the pool is Stalled after exactly BumpAfter blocks, and never because a node is
// behind the block at which it was signed.
func TestStalledAfterSoManyBlocks(t *testing.T) {
	for _, x := range []struct {
		after, head uint64
		want        batch.Reported
	}{
		{3, 100, batch.ReportedPending}, {3, 102, batch.ReportedPending}, {3, 103, batch.ReportedStalled}, {3, 95, batch.ReportedPending},
		{math.MaxUint64, 100, batch.ReportedPending}, {math.MaxUint64 - 99, 5000, batch.ReportedPending}, {math.MaxUint64, math.MaxUint64 - 1, batch.ReportedPending},
	} {
		node, url := newScriptedNode(t)
		c, a, hash := preparedIntent(t, node, url, &evm.SignerOptions{Options: evm.Options{BumpAfter: x.after}})
		node.setAnswer("eth_getTransactionByHash", func([]any) (any, string) {
			return map[string]any{"hash": hash, "blockHash": nil, "nonce": "0x0"}, ""
		})
		back := setLastBlock(node, x.head)
		st, err := c.BatchStatuses(t.Context(), a.Service, []batch.Attempt{a})
		require.NoError(t, err)
		require.Len(t, st, 1)
		assert.Equal(t, x.want, st[0].Reported, "BumpAfter %d, block %d", x.after, x.head)
		kept, err := c.Prepare(t.Context(), a)
		require.NoError(t, err)
		assert.Equal(t, x.want == batch.ReportedStalled, len(kept) > len(a.Prepared), "BumpAfter %d, block %d", x.after, x.head)
		back()
	}
}

// A node keeps the state of the last blocks only, and the question comes too late for it. The
// blocks themselves, read from the height at which the nonce was chosen, show which transaction
// used the nonce. Each question reads some of them.
func TestVoidWithoutState(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		var blocks, maxAllowed atomic.Int64
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
		from, other := s.newAccount(), s.newAccount()
		s.mine(20)
		o := evm.SignerOptions{Options: evm.Options{Finality: evm.After(3)}}
		o.Client = &http.Client{Transport: blockCounter{s.http.Transport, &blocks}}
		c := s.newSigningClient(o, s.newKeySigner(from, other))
		ask := func(b batch.Batch, kept []byte) batch.Status {
			t.Helper()
			blocks.Store(0)
			st, err := c.BatchStatuses(t.Context(), b.Service, []batch.Attempt{{Key: b.Key(), Prepared: kept}})
			require.NoError(t, err)
			require.Len(t, st, 1)
			maxAllowed.Store(max(maxAllowed.Load(), blocks.Load()))
			return st[0]
		}
		prepare := func(b batch.Batch) []byte {
			kept, err := c.Prepare(t.Context(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
			require.NoError(t, err)
			return kept
		}
		b, mine := s.newIntent(from, 10), s.newIntent(other, 11)
		kept, keptMine := prepare(b), prepare(mine)
		require.NoError(t, c.Submit(t.Context(), batch.Attempt{Key: mine.Key(), Number: 1, Payload: mine.Payload, Prepared: keptMine}))
		s.mine(70)
		theirs := s.newPayment(from, 0, 99)
		s.sendForeign(theirs)
		s.mine(200)
		for range 2 {
			st := ask(b, kept)
			assert.Equal(t, batch.ReportedPending, st.Reported)
			assert.Contains(t, st.Message, "the node does not show by whom")
		}
		st := ask(b, kept)
		assert.Equal(t, batch.ReportedVoid, st.Reported)
		assert.Contains(t, st.Message, "nonce 0 was used by transaction "+string(theirs.ID))
		assert.LessOrEqual(t, maxAllowed.Load(), int64(32))
		blind := o // finds nothing by its hash
		blind.Client = &http.Client{Transport: receiptRemover{s.http.Transport}}
		c = s.newSigningClient(blind, s.newKeySigner(from, other))
		for range 5 { // the batch's own transaction in the block is no proof against it
			st, err := c.BatchStatuses(t.Context(), mine.Service, []batch.Attempt{{Key: mine.Key(), Prepared: keptMine}})
			require.NoError(t, err)
			assert.Empty(t, st)
		}
	})
}

// Arbitrum's deposit shows the account that it pays, and nonce 0, which it does not use. The
// search goes on to the payment itself.
func TestADepositUsesNoNonce(t *testing.T) {
	node, url := newScriptedNode(t)
	c, a, ours := preparedIntent(t, node, url, nil)
	node.setAnswer("eth_getTransactionCount", func(params []any) (any, string) {
		switch params[1] {
		case "latest", "pending", hexNumber(90), hexNumber(100):
			return "0x1", ""
		}
		return nil, "missing trie node"
	})
	reached := false
	before := node.answersByMethod["eth_getBlockByNumber"]
	node.setAnswer("eth_getBlockByNumber", func(params []any) (any, string) {
		doc, refusal := before(params)
		tx := map[string]any{"from": evmtest.Dev(0).Address(), "nonce": "0x0"}
		switch params[0] {
		case hexNumber(40):
			tx["hash"], tx["type"] = foreignHash, "0x64"
		case hexNumber(85):
			tx["hash"], tx["type"], reached = ours, "0x2", true
		default:
			return doc, refusal
		}
		doc.(map[string]any)["transactions"] = []any{tx}
		return doc, refusal
	})
	for range 20 {
		st, err := c.BatchStatuses(t.Context(), a.Service, []batch.Attempt{a})
		require.NoError(t, err)
		for _, one := range st {
			require.NotEqual(t, batch.ReportedVoid, one.Reported, one.Message)
		}
	}
	assert.True(t, reached)
}

// A node that has removed old blocks answers null for them. The search skips them, and reads them
// at its end, since another node behind the address may have them.
func TestASearchPassesOverMissingBlocks(t *testing.T) {
	for name, theirs := range map[string]string{"behind the gap": hexNumber(85), "in the gap": hexNumber(40)} {
		t.Run(name, func(t *testing.T) {
			node, url := newScriptedNode(t)
			c, a, _ := preparedIntent(t, node, url, nil)
			node.setAnswer("eth_getTransactionCount", func(params []any) (any, string) {
				switch params[1] {
				case "latest", "pending", hexNumber(90), hexNumber(100):
					return "0x1", ""
				}
				return nil, "missing trie node"
			})
			gap := true
			before := node.answersByMethod["eth_getBlockByNumber"]
			node.setAnswer("eth_getBlockByNumber", func(params []any) (any, string) {
				doc, refusal := before(params)
				switch params[0] {
				case hexNumber(88):
					defer func() { gap = false }()
				case hexNumber(40):
					if gap {
						return nil, ""
					}
				}
				if params[0] == theirs {
					doc.(map[string]any)["transactions"] = []any{map[string]any{"from": evmtest.Dev(0).Address(), "nonce": "0x0", "hash": foreignHash, "type": "0x2"}}
				}
				return doc, refusal
			})
			for range 20 {
				st, err := c.BatchStatuses(t.Context(), a.Service, []batch.Attempt{a})
				require.NoError(t, err)
				require.Len(t, st, 1)
				if st[0].Reported == batch.ReportedVoid {
					assert.Contains(t, st[0].Message, foreignHash)
					return
				}
			}
			assert.Fail(t, "nobody found the transaction")
		})
	}
}

// A proxy refuses a method that it does not list with any status. The method is only a short cut:
// the blocks show which transaction used the nonce. A provider that is busy is asked again later.
func TestAProxyThatListsNoSuchMethod(t *testing.T) {
	for name, x := range map[string]struct {
		status int
		body   string
		want   batch.ErrorKind
	}{
		"no such method": {http.StatusOK, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"the method does not exist/is not available"}}`, ""},
		"403":            {http.StatusForbidden, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"rpc method is not whitelisted"},"id":1}`, ""},
		"401":            {http.StatusUnauthorized, "no", ""},
		"400":            {http.StatusBadRequest, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"unsupported method"},"id":1}`, ""},
		"500":            {http.StatusInternalServerError, "oops", ""},
		"429":            {http.StatusTooManyRequests, "slow down", batch.KindBusy},
	} {
		t.Run(name, func(t *testing.T) {
			node, url := newScriptedNode(t)
			o := &evm.SignerOptions{}
			o.Client = &http.Client{Transport: interceptor{http.DefaultTransport, func(_ context.Context, body string) *http.Response {
				if strings.Contains(body, "eth_getTransactionBySenderAndNonce") {
					return newResponse(x.status, x.body)
				}
				return nil
			}}}
			c, a, _ := preparedIntent(t, node, url, o)
			node.setAnswer("eth_getTransactionCount", func(params []any) (any, string) {
				switch params[1] {
				case "latest", "pending", hexNumber(90), hexNumber(100):
					return "0x1", ""
				}
				return nil, "missing trie node"
			})
			before := node.answersByMethod["eth_getBlockByNumber"]
			node.setAnswer("eth_getBlockByNumber", func(params []any) (any, string) {
				doc, refusal := before(params)
				if params[0] == hexNumber(85) {
					doc.(map[string]any)["transactions"] = []any{map[string]any{"hash": foreignHash, "from": evmtest.Dev(0).Address(), "nonce": "0x0", "type": "0x2"}}
				}
				return doc, refusal
			})
			for range 20 {
				st, err := c.BatchStatuses(t.Context(), a.Service, []batch.Attempt{a})
				require.Equal(t, x.want, dlt.Kind(err), "%v", err)
				if x.want != "" {
					assert.Empty(t, st)
					return
				}
				require.Len(t, st, 1)
				if st[0].Reported == batch.ReportedVoid {
					return
				}
			}
			assert.Fail(t, "never Void")
		})
	}
}

// Intents that wait for a lower base fee, and that the node has forgotten, do not delay the
// others, because one request asks for all their nonces.
func TestStuckIntentsDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
		s.mine(4)
		c, requests, ask, _ := fiftyPreparedIntents(s)
		s.mine(4)
		requests.Store(0)
		st, err := c.BatchStatuses(t.Context(), "", ask)
		require.NoError(t, err)
		assert.Len(t, st, 50)
		assert.LessOrEqual(t, requests.Load(), int64(5))
	})
}

// Another wallet has used the nonces of many intents. Finding out with which transactions takes
// long. So the answers about the other intents come first, and the search gets to each of the
// intents in turn.
func TestASearchDelaysNobody(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
		s.mine(4)
		c, _, ask, accounts := fiftyPreparedIntents(s)
		for _, a := range accounts[:49] {
			s.sendForeign(s.newPayment(a, 0, 99))
		}
		s.mine(40)
		void := map[batch.ID]bool{}
		for range 500 {
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			st, err := c.BatchStatuses(ctx, "", ask)
			cancel()
			require.NoError(t, err)
			require.Less(t, time.Since(begun), 15*time.Second)
			require.Greater(t, len(st), 1)
			committed := 0
			for _, one := range st {
				if one.Reported == batch.ReportedCommitted {
					committed++
					continue
				}
				require.Equal(t, batch.ReportedVoid, one.Reported, one.Message)
				void[one.ID] = true
			}
			require.Equal(t, 1, committed)
			if len(void) == 49 {
				return
			}
		}
		assert.Len(t, void, 49, "each has its turn")
	})
}

// fiftyPreparedIntents returns prepared intents of fifty accounts, at a node where each request
// takes a while. Only the last one is posted.
func fiftyPreparedIntents(s *testChain) (c *evm.SigningClient, requests *atomic.Int64, ask []batch.Attempt, accounts []evmtest.Account) {
	for range 50 {
		accounts = append(accounts, s.newAccount())
	}
	requests = &atomic.Int64{}
	o := finalAfterTwoBlocks()
	o.Client = &http.Client{Transport: slowTransport{s.http.Transport, requests}}
	c = s.newSigningClient(o, s.newKeySigner(accounts...))
	for i, a := range accounts {
		b := s.newIntent(a, int64(10+i))
		one := batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}
		var err error
		one.Prepared, err = c.Prepare(s.Context(), one)
		require.NoError(s, err)
		if i == 49 {
			require.NoError(s, c.Submit(s.Context(), one))
		}
		one.Payload = nil
		ask = append(ask, one)
	}
	return c, requests, ask, accounts
}

// slowTransport is a connection to a node on which each request takes a while.
type slowTransport struct {
	http.RoundTripper
	requests *atomic.Int64
}

func (f slowTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	f.requests.Add(1)
	select {
	case <-time.After(200 * time.Millisecond):
		return f.RoundTripper.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// blockCounter counts the requested blocks with transactions.
type blockCounter struct {
	http.RoundTripper
	blocks *atomic.Int64
}

func (c blockCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	c.blocks.Add(int64(bytes.Count(body, []byte(`,true]`))))
	again := r.Clone(r.Context())
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return c.RoundTripper.RoundTrip(again)
}

// However long a transaction waits, its slot is not too large, and its fees stay within the limit.
func TestSlotIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
		from := s.newAccount()
		s.setBaseFee(1)
		o := finalAfterTwoBlocks()
		o.MaxFeePerGas = new(big.Int).Lsh(big.NewInt(1), 100)
		o.Fees = func(context.Context, evm.Market) (evm.Fee, error) {
			return evm.Fee{Tip: big.NewInt(1), FeeCap: big.NewInt(1e9)}, nil
		}
		c := s.newSigningClient(o, s.newKeySigner(from))
		b := s.newIntent(from, 10)
		a := batch.Attempt{Key: b.Key(), Payload: b.Payload}
		for range evm.MaxEntries + 5 {
			a.Number++
			kept, err := c.Prepare(t.Context(), a)
			require.NoError(t, err)
			require.LessOrEqual(t, len(kept), dlt.MaxPrepared)
			require.True(t, bytes.HasPrefix(kept, a.Prepared))
			a.Prepared = kept
			for range 3 {
				s.mine(1)
			}
			s.setBaseFee(1000) // no transaction pays such a base fee
		}
		_, fees, _, err := evm.Slot(a.Prepared)
		require.NoError(t, err)
		assert.Len(t, fees, evm.MaxEntries-evm.ClosingRoom)
	})
}

func TestNewSignerOptions(t *testing.T) {
	signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
	require.NoError(t, err)
	for name, c := range map[string]struct {
		signer  evm.Signer
		options evm.SignerOptions
		field   string
	}{
		"no signer":           {nil, evm.SignerOptions{}, "signer"},
		"a limit of 0":        {signer, evm.SignerOptions{MaxFeePerGas: new(big.Int)}, "SignerOptions.MaxFeePerGas"},
		"a limit too large":   {signer, evm.SignerOptions{MaxFeePerGas: new(big.Int).Lsh(big.NewInt(1), 128)}, "SignerOptions.MaxFeePerGas"},
		"a negative time":     {signer, evm.SignerOptions{SignTimeout: -1}, "SignerOptions.SignTimeout"},
		"fewer than none":     {signer, evm.SignerOptions{Options: evm.Options{MaxInFlightPerService: -1}}, "Options.MaxInFlightPerService"},
		"a bad option of New": {signer, evm.SignerOptions{Options: evm.Options{Genesis: "x"}}, "Options.Genesis"},
	} {
		_, err := evm.NewSigner("http://localhost:1", 1, c.signer, &c.options)
		var inputErr *batch.InputError
		require.ErrorAs(t, err, &inputErr, name)
		assert.Equal(t, c.field, inputErr.Field, name)
	}
	c, err := evm.NewSigner("http://localhost:1", 7, signer, nil)
	require.NoError(t, err)
	tr := c.Traits("")
	assert.Equal(t, "evm:7:intents", tr.Name)
	assert.True(t, tr.Prepares && tr.Renews && tr.Checks)
	assert.False(t, tr.Resolves)
	assert.Equal(t, evm.DefaultMaxInFlightPerService, tr.MaxInFlightPerService)
	assert.True(t, tr.PreparesInOrder)
	assert.Equal(t, evm.DefaultSignTimeout, 5*time.Second)
}

func TestKeySigner(t *testing.T) {
	order := secp256k1.Params().N.Bytes()
	for name, key := range map[string][]byte{"short": make([]byte, 31), "zero": make([]byte, 32), "the order": order} {
		_, err := evm.NewKeySigner(evmtest.Dev(0).Key(), key)
		var inputErr *batch.InputError
		require.ErrorAs(t, err, &inputErr, name)
		assert.Equal(t, "keys[1]", inputErr.Field)
	}
	_, err := evm.NewKeySigner()
	require.EqualError(t, err, `dltbatch: invalid keys "none": want one private key or more, of 32 bytes each`)
	s, err := evm.NewKeySigner(evmtest.Dev(1).Key(), evmtest.Dev(0).Key())
	require.NoError(t, err)
	assert.Equal(t, []string{evmtest.Dev(1).Address(), evmtest.Dev(0).Address()}, s.Accounts())
	_, err = s.Sign(t.Context(), evmtest.Dev(2).Address(), evm.Unsigned{})
	require.EqualError(t, err, fmt.Sprintf("no key of account %s, only of %s, %s", evmtest.Dev(2).Address(), evmtest.Dev(1).Address(), evmtest.Dev(0).Address()))
	for _, shown := range []string{s.String(), s.GoString()} {
		assert.Equal(t, "evm.KeySigner of 2 accounts", shown)
	}
}

// foreignSigner is a type of the application, which may sign for more accounts than its part.
type foreignSigner struct{ *evm.KeySigner }

// An intent of an account of which the signer has no key is refused before it is stored, and the
// error names the accounts that it has.
func TestIntentsOfAnAccountWithoutAKey(t *testing.T) {
	dev := func(i int) string { return evmtest.Dev(i).Address() }
	one, err := evm.NewKeySigner(evmtest.Dev(0).Key())
	require.NoError(t, err)
	var keys [][]byte
	for i := range 6 {
		keys = append(keys, evmtest.Dev(i).Key())
	}
	six, err := evm.NewKeySigner(keys...)
	require.NoError(t, err)
	kms, err := evm.NewDigestSigner(dev(0), func(context.Context, [32]byte) ([]byte, error) { return nil, nil })
	require.NoError(t, err)
	for name, c := range map[string]struct {
		signer  evm.Signer
		account int
		want    string // text of the error; "" means no error
	}{
		"its key":                  {one, 0, ""},
		"another key":              {one, 1, dev(0)},
		"one of six keys":          {six, 5, ""},
		"none of six keys":         {six, 6, strings.Join(six.Accounts()[:3], ", ") + " and 3 more"},
		"no keys":                  {&evm.KeySigner{}, 0, "none"},
		"the account of a KMS":     {kms, 0, ""},
		"not the account of a KMS": {kms, 1, dev(0)},
		"it may sign for more":     {foreignSigner{one}, 1, ""},
	} {
		client, err := evm.NewSigner("http://localhost:1", 1337, c.signer, nil)
		require.NoError(t, err)
		b := batch.Batch{ID: "a", Service: batch.ServiceID(dev(c.account)), Payload: []byte(`{"to":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8"}`)}
		if err = client.Check(b); c.want == "" {
			require.NoError(t, err, name)
			continue
		}
		var inputErr *batch.InputError
		require.ErrorAs(t, err, &inputErr, name)
		assert.Equal(t, batch.InputError{Key: b.Key(), Field: "service", Value: dev(c.account), Want: "an account whose key the signer has: " + c.want}, *inputErr, name)
	}
}

// Each bad payload names its field, before anything is stored.
func TestIntentsAreStrict(t *testing.T) {
	signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
	require.NoError(t, err)
	c, err := evm.NewSigner("http://localhost:1", 1337, signer, &evm.SignerOptions{MaxFeePerGas: big.NewInt(100e9)})
	require.NoError(t, err)
	from := batch.ServiceID(evmtest.Dev(0).Address())
	const to = `"to":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8"`
	for payload, field := range map[string]string{
		`{` + to + `}`: "",
		`{` + to + `,"value":"1","data":"0xab","gas":90000,"maxFeePerGas":"100000000000"}`: "",
		`{"to":null,"data":"0x00"}`: "",
		` {` + to + ` } `:           "",
		`{` + to + `,"value":"115792089237316195423570985008687907853269984665640564039457584007913129639936"}`: "value",
		`{` + to + `,"value":"01"}`:                                "value",
		`{` + to + `,"value":"-1"}`:                                "value",
		`{` + to + `,"value":"+1"}`:                                "value",
		`{` + to + `,"value":"1e3"}`:                               "value",
		`{` + to + `,"value":"0x10"}`:                              "value",
		`{` + to + `,"value":1}`:                                   "value",
		`{` + to + `,"value":""}`:                                  "value",
		`{` + to + `,"value":null}`:                                "value",
		`{` + to + `,"value":"` + strings.Repeat("9", 1000) + `"}`: "value",
		`{` + to + `,"vaule":"1"}`:                                 "vaule",
		`{` + to + `,"Value":"1"}`:                                 "Value",
		`{` + to + `,"value":"1","value":"2"}`:                     "value",
		`{"to":"0x70997970C51812dc3A010C7d01b50e0d17dc79c8"}`:      "to",
		`{"to":"0x7099"}`:                                          "to",
		`{"to":""}`:                                                "to",
		`{"to":7}`:                                                 "to",
		`{"value":"1"}`:                                            "to",
		`{"to":null}`:                                              "data",
		`{"to":null,"data":"0x"}`:                                  "data",
		`{` + to + `,"data":"ab"}`:                                 "data",
		`{` + to + `,"data":"0xabc"}`:                              "data",
		`{` + to + `,"data":"0xzz"}`:                               "data",
		`{` + to + `,"gas":0}`:                                     "gas",
		`{` + to + `,"gas":20999}`:                                 "gas",
		`{` + to + `,"gas":-1}`:                                    "gas",
		`{` + to + `,"gas":1.5}`:                                   "gas",
		`{` + to + `,"gas":"21000"}`:                               "gas",
		`{` + to + `,"gas":99999999999999999999}`:                  "gas",
		`{` + to + `,"maxFeePerGas":"0"}`:                          "maxFeePerGas",
		`{` + to + `,"maxFeePerGas":"100000000001"}`:               "maxFeePerGas",
		`{` + to + `,"nonce":1}`:                                   "nonce",
		`{` + to + `}{}`:                                           "payload",
		`{` + to + `} x`:                                           "payload",
		`{` + to + `,}`:                                            "payload",
		`[` + `]`:                                                  "payload",
		`null`:                                                     "payload",
		``:                                                         "payload",
		`{` + to + `,"data":"0x` + strings.Repeat("00", 128<<10-1000) + `"}`: "data",
		strings.Repeat(" ", 512<<10):                                         "payload",
	} {
		err := c.Check(batch.Batch{ID: "a", Service: from, Payload: []byte(payload)})
		if field == "" {
			assert.NoError(t, err, payload)
			continue
		}
		var inputErr *batch.InputError
		require.ErrorAs(t, err, &inputErr, "%.200s", payload)
		assert.Equal(t, field, inputErr.Field, "%.200s: %v", payload, err)
		assert.Equal(t, batch.ID("a"), inputErr.Key.ID)
		assert.Less(t, len(err.Error()), 600)
	}
	for _, service := range []batch.ServiceID{"", "Alice", "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "0X70997970c51812dc3a010c7d01b50e0d17dc79c8"} {
		var inputErr *batch.InputError
		require.ErrorAs(t, c.Check(batch.Batch{ID: "a", Service: service, Payload: []byte(`{` + to + `}`)}), &inputErr)
		assert.Equal(t, "service", inputErr.Field)
	}
}

func TestIntentBecomesABatch(t *testing.T) {
	const mixed = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
	b, err := evm.Intent{To: mixed, Value: big.NewInt(5), Data: []byte{0xab}, Gas: 30000, MaxFeePerGas: big.NewInt(7)}.Batch("mine", mixed)
	require.NoError(t, err)
	assert.Equal(t, batch.Batch{
		ID: "mine", Service: batch.ServiceID(strings.ToLower(mixed)),
		Payload: []byte(`{"to":"` + mixed + `","value":"5","data":"0xab","gas":30000,"maxFeePerGas":"7"}`),
	}, b)
	for field, i := range map[string]evm.Intent{
		"to": {To: "0x1"}, "data": {}, "value": {To: mixed, Value: big.NewInt(-1)}, "maxFeePerGas": {To: mixed, MaxFeePerGas: new(big.Int)},
	} {
		_, err := i.Batch("mine", mixed)
		var inputErr *batch.InputError
		require.ErrorAs(t, err, &inputErr, field)
		assert.Equal(t, field, inputErr.Field)
	}
	_, err = evm.Intent{To: mixed}.Batch("mine", "0x1")
	var inputErr *batch.InputError
	require.ErrorAs(t, err, &inputErr)
	assert.Equal(t, "service", inputErr.Field)
}

// Any payload is either read or refused. An intent that was read and written again has the same
// content.
func FuzzIntent(f *testing.F) {
	signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
	require.NoError(f, err)
	c, err := evm.NewSigner("http://localhost:1", 1337, signer, nil)
	require.NoError(f, err)
	f.Add([]byte(`{"to":"0x70997970C51812dc3A010C7d01b50e0d17dc79C8","value":"1","data":"0xab","gas":90000}`))
	f.Add([]byte(`{"to":null,"data":"0x00","maxFeePerGas":"1"}`))
	f.Add([]byte(`{"to":null,"to":null}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		err := c.Check(batch.Batch{ID: "a", Service: batch.ServiceID(evmtest.Dev(0).Address()), Payload: payload})
		var inputErr *batch.InputError
		if err != nil && !errors.As(err, &inputErr) {
			t.Fatalf("%v", err)
		}
	})
}

// Any prepared bytes are either read or refused, without a panic.
func FuzzSlot(f *testing.F) {
	f.Add([]byte{1})
	f.Add(make([]byte, 33+137))
	f.Fuzz(func(t *testing.T, kept []byte) {
		_, fees, hashes, err := evm.Slot(kept)
		if err == nil && (len(fees) < 1 || len(fees) > evm.MaxEntries || len(fees) != len(hashes)) {
			t.Fatalf("%d fees, %d hashes", len(fees), len(hashes))
		}
	})
}
