package dltbatch_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

// A node may repeat any part of a request, under any status and in any form: no error of any
// client then shows a part of a key in the address or in a header, even if one key is the
// beginning of another.
func TestKeysOfAnyClientShowNowhere(t *testing.T) {
	const begin, longer = "hk-M3nB7vC1xZ5a", "hk-M3nB7vC1xZ5a-S9dF4gH8jK2l"
	header := http.Header{"X-First": {begin}, "X-Second": {longer}, "X-Third": {"n=" + begin + "; m=" + longer}}
	tokens := func(context.Context) (string, error) { return longer, nil }
	key, err := sawtooth.ParsePrivateKey(secretKey)
	require.NoError(t, err)
	payload, address := splintertest.Inc("x", 1)
	sabre, err := sawtooth.Build(key, "aaaaa-bbbbb::a000", sawtooth.Transaction{
		FamilyName: splintertest.Family, FamilyVersion: splintertest.FamilyVersion, Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
	})
	require.NoError(t, err)
	raw, _ := evmtest.Dev(0).Sign(evmtest.Unsigned{ChainID: 1337, To: evmtest.Dev(9).Address()})
	require.NoError(t, err)
	signed, err := evm.NewBatch(raw)
	require.NoError(t, err)

	for name, c := range map[string]struct {
		newClient func(url string) (dlt.Ledger, error)
		batch     batch.Batch
	}{
		"sawtooth": {func(url string) (dlt.Ledger, error) {
			return sawtooth.New(url, &sawtooth.Options{Header: header, Receipts: true})
		}, sabre},
		"splinter": {func(url string) (dlt.Ledger, error) {
			return splinter.New(url, &splinter.Options{Header: header, Token: splinter.OAuth2Token(longer)})
		}, sabre},
		"canton": {func(url string) (dlt.Ledger, error) {
			return canton.New(url, &canton.Options{UserID: "app", Token: tokens, DecidedWithin: time.Millisecond})
		}, batch.Batch{ID: "b", Service: "Alice::1220", Payload: cantontest.Payload(cantontest.Transfer{To: "Bob::1220", Amount: 5})}},
		"evm": {func(url string) (dlt.Ledger, error) {
			return evm.New(url, 1337, &evm.Options{Header: header})
		}, signed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, escape := 0, false
			node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				said := fmt.Sprint("for ", r.RequestURI, " and ", r.Header)
				if escape {
					said = url.QueryEscape(said)
				}
				w.Header().Set("Location", "http://"+r.Host+"/elsewhere"+r.RequestURI)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"code":%q,"cause":%[1]q,"message":%[1]q,"errorCategory":9,"grpcCodeValue":9,"error":{"code":30,"message":%[1]q}}`, said)
			}))
			t.Cleanup(node.Close)
			out := &logBuffer{}
			try := func(address string) {
				client, err := c.newClient(address)
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				a := batch.Attempt{Key: c.batch.Key(), Number: 1, Payload: c.batch.Payload}
				printErrors(out, client.Submit(ctx, a))
				found, err := client.BatchStatuses(ctx, a.Service, []batch.Attempt{a})
				fmt.Fprintf(out, "%+v\n", found)
				printErrors(out, err)
				_, err = client.Resolve(ctx, dlt.Doubt{Attempt: a, Since: time.Hour, Ended: time.Hour})
				printErrors(out, err)
				short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				defer cancel()
				printErrors(out, client.Events(short, []batch.ServiceID{a.Service}, func(dlt.Event) error { return nil }))
			}
			for _, status = range []int{200, 307, 400, 401, 404, 429, 500, 503} {
				for _, escape = range []bool{false, true} {
					try(node.URL + "/" + secretPath + "/v1")
				}
			}
			node.Close()
			try(node.URL + "/" + secretPath)
			text := out.String()
			require.Contains(t, text, "redacted", "something was repeated")
			for _, secret := range []string{secretPath, longer, longer[len(begin):], begin} {
				for at := 0; at+10 <= len(secret); at++ {
					if !assert.NotContains(t, text, secret[at:at+10]) {
						break
					}
				}
			}
			assert.Contains(t, text, "127.0.0.1", "the host is shown")
		})
	}
}
