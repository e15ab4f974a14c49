package evm_test

import (
	"context"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// between lets a test answer for the node, or wait before it does.
type between struct {
	next   http.RoundTripper
	answer func(ctx context.Context, body string) *http.Response // nil: the node answers
}

// RoundTrip implements [http.RoundTripper].
func (b between) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if resp := b.answer(r.Context(), string(body)); resp != nil {
		return resp, nil
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(strings.NewReader(string(body)))
	return b.next.RoundTrip(again)
}

func response(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1}
}

// A question that is too much for a node holds up the one batch that needs it. The node answers all other
// questions, so the other lanes go on.
func TestAQuestionTooMuchHoldsUpOneBatch(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(ctx context.Context, account, body string) *http.Response
		says   []string
	}{
		"an estimate that hangs": {func(ctx context.Context, account, body string) *http.Response {
			if strings.Contains(body, "eth_estimateGas") && strings.Contains(body, account) {
				<-ctx.Done()
			}
			return nil
		}, []string{"no estimate of the gas", "deadline exceeded"}},
		"a proxy that waits no longer for an estimate": {func(_ context.Context, account, body string) *http.Response {
			if strings.Contains(body, "eth_estimateGas") && strings.Contains(body, account) {
				return response(http.StatusGatewayTimeout, "upstream timed out")
			}
			return nil
		}, []string{"no estimate of the gas", "HTTP 504", "upstream timed out"}},
		"an estimate that is no number": {func(_ context.Context, account, body string) *http.Response {
			if strings.Contains(body, "eth_estimateGas") && strings.Contains(body, account) {
				return response(http.StatusOK, `{"jsonrpc":"2.0","id":1,"result":{}}`)
			}
			return nil
		}, []string{"no estimate of the gas", "not a quantity"}},
		"no state of the deep block": {func(_ context.Context, account, body string) *http.Response {
			var one call
			if json.Unmarshal([]byte(body), &one) == nil && one.Method == "eth_getTransactionCount" && one.Params[0] == account {
				return response(http.StatusOK, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"missing trie node"}}`)
			}
			return nil
		}, []string{"no state of block", "missing trie node"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := simulated(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
				s.mine(4)
				from := s.account()
				others := []evmtest.Account{s.account(), s.account(), s.account()}
				o := afterTwo()
				o.Client = &http.Client{Transport: between{s.http.Transport, func(ctx context.Context, body string) *http.Response {
					return c.answer(ctx, from.Address(), body)
				}}}
				p := s.runLedger(memory.New(), s.signing(o, s.keys(append(others, from)...)), queuer.Serial{})
				bad := s.intentTo(from, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(10)})
				p.add(bad)
				time.Sleep(2 * time.Minute)
				rec := p.becomes(bad, batch.Delayed)
				assert.Equal(t, batch.KindNotYet, rec.Error.Kind)
				for _, says := range c.says {
					assert.ErrorContains(t, rec.Error, says)
				}
				assert.NotContains(t, rec.Error.Error(), "in doubt")
				for _, a := range others { // one after the other: a gate that has closed lets few through
					good := s.intentTo(a, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(20)})
					p.add(good)
					since := time.Now()
					p.becomes(good, batch.Pending)
					assert.Less(t, time.Since(since), 5*time.Second)
				}
			})
		})
	}
}
