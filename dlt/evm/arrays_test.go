package evm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// fiftyAttempts returns the attempts of 50 transactions of an account.
func fiftyAttempts() (ask []batch.Attempt) {
	for i := range uint64(50) {
		ask = append(ask, batch.Attempt{Key: signedBatch(func(tx *evmtx.Tx) { tx.Nonce = i }).Key()})
	}
	return ask
}

// A provider that is asked too often refuses an array of any length. The client does not shorten
// its arrays then, because shorter ones would be more requests.
func TestAThrottledArrayIsNotHalved(t *testing.T) {
	_, url := newScriptedNode(t)
	throttled, posts := false, 0
	c := newTestClient(t, url, &evm.Options{Client: &http.Client{Transport: interceptor{http.DefaultTransport, func(context.Context, string) *http.Response {
		posts++
		if throttled {
			return newResponse(200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"daily request count exceeded, request rate limited"}}`)
		}
		return nil
	}}}})
	ask := func() (int, error) {
		posts = 0
		_, err := c.BatchStatuses(t.Context(), "", fiftyAttempts())
		return posts, err
	}
	before, err := ask()
	require.NoError(t, err)
	throttled = true
	during, err := ask()
	require.ErrorIs(t, err, dlt.ErrBusy)
	assert.Equal(t, 1, during)
	throttled = false
	after, err := ask()
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

// The client asks again, in parts, when the answer to an array is larger than MaxResponse: so one
// large answer does not hide the others.
func TestAnAnswerThatIsTooLargeIsHalved(t *testing.T) {
	_, url := newScriptedNode(t)
	for _, most := range []int64{0, 700} {
		c := newTestClient(t, url, &evm.Options{MaxResponse: most})
		found, err := c.BatchStatuses(t.Context(), "", fiftyAttempts())
		require.NoError(t, err, "at most %d bytes", most)
		assert.Len(t, found, 50)
	}
}

// A provider's limit for arrays comes with many different statuses. A minute after the limit is
// gone the arrays grow again.
func TestALimitOfArraysComesAndGoes(t *testing.T) {
	tier.Plain(t)
	for _, status := range []int{200, 400, 403, 413, 422, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := evmtest.Start(t, &evmtest.Options{InMemory: true})
				limited, longest := true, 0
				c := newTestClient(t, n.URL(), &evm.Options{Client: &http.Client{Transport: interceptor{n.Client().Transport, func(_ context.Context, body string) *http.Response {
					var all []json.RawMessage
					if json.Unmarshal([]byte(body), &all) != nil {
						return nil
					}
					if limited && len(all) > 3 {
						return newResponse(status, `{"jsonrpc":"2.0","id":null,"error":{"code":31,"message":"Batch of more than 3 requests are not allowed on free tier"}}`)
					}
					longest = max(longest, len(all))
					return nil
				}}}})
				ask := func() int {
					longest = 0
					got, err := c.BatchStatuses(t.Context(), "", fiftyAttempts())
					require.NoError(t, err)
					assert.Len(t, got, 50)
					return longest
				}
				assert.LessOrEqual(t, ask(), 3)
				limited = false
				assert.LessOrEqual(t, ask(), 3, "not at once")
				for range 7 {
					time.Sleep(time.Minute)
					ask()
				}
				assert.Greater(t, ask(), 50)
			})
		})
	}
}

// An endpoint that refuses this client refuses arrays of any length, so the client does not
// shorten them.
func TestARefusedClientIsNotAskedInShorterArrays(t *testing.T) {
	for _, refused := range []string{`{"error":{"code":-32000,"message":"invalid api key"}}`, `no`} {
		for _, status := range []int{401, 403} {
			_, url := newScriptedNode(t)
			posts := 0
			c := newTestClient(t, url, &evm.Options{Client: &http.Client{Transport: interceptor{http.DefaultTransport, func(context.Context, string) *http.Response {
				posts++
				return newResponse(status, refused)
			}}}})
			_, err := c.BatchStatuses(t.Context(), "", fiftyAttempts())
			require.ErrorIs(t, err, dlt.ErrMisconfigured)
			assert.Equal(t, 1, posts)
		}
	}
}

// A 401 or 403 refuses the client and not the batch, whatever the text says: a gateway's text may
// be about its own signatures.
func TestAGatewayRefusesTheClientAndNotTheBatch(t *testing.T) {
	for _, status := range []int{401, 403} {
		for _, text := range []string{"invalid signature", "JWT: invalid signature", "nonce too low"} {
			s, url := newScriptedNode(t)
			s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return nil, text })
			s.status = status
			err := newTestClient(t, url, nil).Submit(t.Context(), attempt(signedBatch(nil), 1))
			assert.Equal(t, batch.KindMisconfigured, dlt.Kind(err), "%d %s: %v", status, text, err)
		}
	}
}
