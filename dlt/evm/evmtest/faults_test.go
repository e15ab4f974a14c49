package evmtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test shows, for each fault of a send, what the client gets and whether the node accepts the
// transaction.
func TestFaultsOfASend(t *testing.T) {
	for name, x := range map[string]struct {
		f     Faults
		taken any    // nil if the pool has the transaction after a second, false if not
		sees  string // part of the answer or of the error
	}{
		"before":      {Faults{ResetBefore: 1}, false, "EOF"},
		"after":       {Faults{ResetAfter: 1}, nil, "EOF"},
		"page before": {Faults{ErrorBefore: 1}, false, "<html>"},
		"page after":  {Faults{ErrorAfter: 1}, nil, "<html>"},
		"timeout":     {Faults{TimeoutText: 1}, nil, `{"code":-32002,"message":"request timed out"}`},
		"late":        {Faults{Late: 1}, nil, "EOF"},
		"dropped":     {Faults{Drop: 1}, false, `"result":"0x`},
		"delayed":     {Faults{Latency: 1}, nil, `"result":"0x`},
	} {
		t.Run(name, func(t *testing.T) {
			x.f.MaxTries = 1
			runInBubble(t, Options{BlockTime: -1, Faults: &x.f}, func(t *testing.T, n *Node) {
				raw, h := signPayment(n, accountA, 0)
				r, err := post(t, n, bodyOf(t, sendMethod, raw))
				require.Contains(t, r.text+fmt.Sprint(err), x.sees)
				time.Sleep(time.Second)
				require.Equal(t, x.taken, blockNumberOf(t, n, h))
				if x.taken == false {
					require.Equal(t, h, askResult(t, n, sendMethod, raw), "the second try")
				}
			})
		})
	}
}

// A busy node refuses in one of two ways, and a node that hangs accepts the transaction or not.
func TestFaultsBySeed(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(20) {
		runInBubble(t, Options{BlockTime: -1, Faults: &Faults{Seed: seed, Busy: 0.5, Hang: 0.5, MaxTries: 1}}, func(t *testing.T, n *Node) {
			raw, h := signPayment(n, accountA, 0)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL(), strings.NewReader(string(bodyOf(t, sendMethod, raw))))
			require.NoError(t, err)
			req.Header.Set("Content-Type", jsonType)
			res, err := n.Client().Do(req)
			what := fmt.Sprint("hang ", blockNumberOf(t, n, h) == nil)
			if err == nil {
				text, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				require.NoError(t, res.Body.Close())
				require.Equal(t, false, blockNumberOf(t, n, h))
				what = fmt.Sprint(res.StatusCode)
				if res.StatusCode == http.StatusOK {
					require.Contains(t, string(text), "rate limited")
				}
			}
			seen[what] = true
		})
	}
	require.Equal(t, map[string]bool{"429": true, "200": true, "hang true": true, "hang false": true}, seen)
}

// The test shows, for each fault of a question, what the client gets.
func TestFaultsOfAQuestion(t *testing.T) {
	for name, x := range map[string]struct {
		f    Faults
		sees string
	}{
		"reset":     {Faults{QueryReset: 1}, "EOF"},
		"page":      {Faults{QueryError: 1}, "<html>"},
		"busy":      {Faults{QueryBusy: 1}, "rate limited"},
		"truncated": {Faults{QueryTruncated: 1}, "unexpected EOF"},
		"behind":    {Faults{Behind: 1}, "0x0"},
		"by script": {Faults{Request: func(p RequestPoint) Fault {
			if p != (RequestPoint{Method: "eth_getTransactionCount", Param: accountA.Address(), Requests: 1, Try: 1}) {
				return Fault{}
			}
			return Fault{Answer: AnswerError, Status: 503, Code: -7, Text: "over capacity", RetryAfter: 9 * time.Second}
		}}, `503 {"error":{"code":-7,"message":"over capacity"},"id":1,"jsonrpc":"2.0"} 9`},
	} {
		t.Run(name, func(t *testing.T) {
			x.f.MaxTries = 1
			runInBubble(t, Options{BlockTime: -1, Faults: &x.f}, func(t *testing.T, n *Node) {
				sendPayment(t, n, accountA, 0)
				n.Mine()
				r, err := post(t, n, bodyOf(t, "eth_getTransactionCount", accountA.Address(), "latest"))
				require.Contains(t, fmt.Sprint(r.status, " ", r.text, " ", r.header.Get("Retry-After"), err), x.sees)
				require.Equal(t, "0x1", nonceOf(t, n, accountA, "latest"))
			})
		})
	}
	runInBubble(t, Options{Faults: &Faults{QueryHang: 1}}, func(t *testing.T, n *Node) {
		go func() { time.Sleep(time.Second); n.Kill() }()
		_, err := post(t, n, bodyOf(t, "eth_chainId"))
		require.ErrorIs(t, err, io.EOF)
	})
}

// A kill ends requests that are not read yet, and none of them takes effect.
func TestKillWhileReading(t *testing.T) {
	runInBubble(t, Options{Faults: &Faults{Request: func(RequestPoint) Fault { return Fault{Delay: time.Second} }}}, func(t *testing.T, n *Node) {
		raw, _ := signPayment(n, accountA, 0)
		go func() { time.Sleep(time.Millisecond); n.Kill(); _ = n.Resume() }()
		_, err := post(t, n, bodyOf(t, sendMethod, raw))
		require.Error(t, err)
		time.Sleep(time.Minute)
		require.Equal(t, "0x0", nonceOf(t, n, accountA, "pending"))
	})
}

// A killed node loses the requests that it had read and not finished: one that it was to answer,
// and one that was to arrive late.
func TestKillLosesWhatIsUnderWay(t *testing.T) {
	slow := &Faults{Request: func(p RequestPoint) Fault {
		if p.Method == sendMethod {
			return Fault{Delay: time.Second}
		}
		return Fault{}
	}}
	late := &Faults{Request: func(p RequestPoint) Fault {
		if p.Method == sendMethod {
			return Fault{Answer: AnswerReset, Acceptance: AcceptedLate, AcceptAfter: time.Second}
		}
		return Fault{}
	}}
	for _, f := range []*Faults{slow, late} {
		runInBubble(t, Options{BlockTime: -1, Faults: f}, func(t *testing.T, n *Node) {
			raw, _ := signPayment(n, accountA, 0)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(bodyOf(t, sendMethod, raw)))
			r.Header.Set("Content-Type", jsonType)
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }() // a handler without a connection ends with a panic
				n.ServeHTTP(httptest.NewRecorder(), r)
			}()
			time.Sleep(100 * time.Millisecond)
			n.Kill()
			require.NoError(t, n.Resume())
			<-done
			time.Sleep(time.Minute)
			require.Equal(t, "0x0", nonceOf(t, n, accountA, "pending"))
		})
	}
}

// Reorganizations by seed: the same seed makes the same chain, whatever is asked in between, and
// each transaction is mined once in the end.
func TestFaultsOfBlocks(t *testing.T) {
	run := func(ask bool) (out []string) {
		f := &Faults{Seed: 3, Reorg: 0.2}
		runInBubble(t, Options{BlockTime: 2 * time.Second, Faults: f}, func(t *testing.T, n *Node) {
			for nonce := range uint64(40) {
				sendPayment(t, n, accountA, nonce)
				time.Sleep(time.Second)
				if ask {
					nonceOf(t, n, accountA, "latest")
				}
			}
			time.Sleep(5 * time.Minute)
			requireLinked(t, n)
			latest, _ := n.Nonce(accountA.Address())
			require.Equal(t, uint64(40), latest)
			for _, e := range n.Journal() {
				out = append(out, fmt.Sprint(e.Kind, e.Hash, e.Block))
			}
		})
		return out
	}
	first := run(false)
	require.Equal(t, first, run(true))
	require.Contains(t, strings.Join(first, " "), string(Unmined))
}
