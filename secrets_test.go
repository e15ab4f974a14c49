package dltbatch_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/internal/hooked"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

const (
	secretKey   = "5a7c1d3e9f0b2846a1c3e5d7f9081b2a3c4d5e6f708192a3b4c5d6e7f8091a2b"
	secretToken = "tk-Qz8wLr5VxN2mYc7HbT4gKd9PsF3jEa6U" +
		"-and-longer-than-a-status-word-may-be-RwX2kPq9ZsLm4Tn7"
	secretName = "zqxjvkwpyhgb" // the name occurs in every payload
	secretPath = "pk-7Gd2Lx9QwErTy4UiOp6AsDf8"
)

// secretForms returns the texts that must not appear in any output, by name.
func secretForms(t testing.TB, extra ...string) map[string][][]byte {
	t.Helper()
	key, err := hex.DecodeString(secretKey)
	require.NoError(t, err)
	all := map[string][][]byte{"private key": {key}, "payload": {[]byte(secretName)}}
	for i, credential := range append([]string{secretToken, secretPath}, extra...) {
		const window = 16 // even 16 bytes of a token must not appear
		name := fmt.Sprint("token ", i)
		for at := 0; at+window <= len(credential); at++ {
			all[name] = append(all[name], []byte(credential[at:at+window]))
		}
	}
	return all
}

// encodings returns the forms in which bytes may appear in a text.
func encodings(secret []byte) []string {
	quoted := strconv.Quote(string(secret))
	out := []string{
		string(secret), quoted[1 : len(quoted)-1],
		hex.EncodeToString(secret), strings.ToUpper(hex.EncodeToString(secret)),
		strings.Trim(fmt.Sprintf("%d", secret), "[]"), // also matches %v of []byte
	}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for offset, skip := range []int{0, 2, 3} { // leaves out the characters that depend on the bytes before and after
			text := enc.EncodeToString(append(make([]byte, offset), secret...))[skip:]
			if (offset+len(secret))%3 != 0 {
				text = text[:len(text)-1]
			}
			out = append(out, text)
		}
	}
	return out
}

// findSecrets returns the secrets that appear in a text, by name, with their places.
func findSecrets(text string, secrets map[string][][]byte) map[string]string {
	where := map[string]string{}
	for name, parts := range secrets {
		for _, part := range parts {
			for _, form := range encodings(part) {
				if at := strings.Index(text, form); at >= 0 {
					where[name] = "..." + text[max(0, at-200):min(len(text), at+len(form)+60)] + "..."
				}
			}
		}
	}
	return where
}

// leakyClient is a client that prints each of its errors, because the engine reports only the
// first of several in a row.
type leakyClient struct {
	ledger    dlt.Ledger
	out       *logBuffer
	leakError func(a batch.Attempt) error // makes Submit's error, with a secret in it, on purpose; nil for none
}

func newLeakyClient(client dlt.Ledger) *leakyClient {
	c := &leakyClient{out: &logBuffer{}}
	c.ledger = hooked.Wrap(client, hooked.Hooks{
		Submit: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) error) error {
			if c.leakError != nil {
				if err := c.leakError(a); err != nil {
					return err
				}
			}
			err := next(ctx, a)
			printErrors(c.out, err)
			return err
		},
		BatchStatuses: func(ctx context.Context, s batch.ServiceID, attempts []batch.Attempt,
			next func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error),
		) ([]batch.Status, error) {
			found, err := next(ctx, s, attempts)
			fmt.Fprintf(c.out, "%v\n%+v\n", found, found)
			printErrors(c.out, err)
			return found, err
		},
		Resolve: func(ctx context.Context, d dlt.Doubt, next func(context.Context, dlt.Doubt) (dlt.Evidence, error)) (dlt.Evidence, error) {
			found, err := next(ctx, d)
			printErrors(c.out, err)
			return found, err
		},
		Events: func(ctx context.Context, s []batch.ServiceID, yield func(dlt.Event) error,
			next func(context.Context, []batch.ServiceID, func(dlt.Event) error) error,
		) error {
			err := next(ctx, s, yield)
			printErrors(c.out, err)
			return err
		},
	})
	return c
}

// leakyLedger is a ledger behind a leaking proxy, with a source of batches for it.
type leakyLedger struct {
	proxy            *leakingProxy
	client           *leakyClient
	closeConnections func()
	store            *memory.Store
	buildBatch       func(t *testing.T, i int) batch.Batch
}

// isInvalid reports which batches are invalid.
func isInvalid(i int) bool { return i%3 == 2 }

func newLeakySplinter(t *testing.T) *leakyLedger {
	network := splintertest.Start(t, nil)
	c := &leakyLedger{proxy: newLeakingProxy(t, network.Handler(0)), store: memory.New()}
	key, err := sawtooth.ParsePrivateKey(secretKey)
	require.NoError(t, err)
	jwt := splinter.CylinderToken(key)
	var asked atomic.Int64
	ledger, err := splinter.New("http://"+c.proxy.address+"/"+secretPath, &splinter.Options{
		Token: func(ctx context.Context, node string) (string, error) {
			if asked.Add(1)%2 == 1 {
				return "OAuth2:" + secretToken, nil
			}
			return jwt(ctx, node)
		},
		LateArrival: 50 * time.Millisecond, CoordinatorTimeout: 100 * time.Millisecond, ClockMargin: 10 * time.Millisecond,
		ProbeInterval: 10 * time.Millisecond, Journal: c.store,
	})
	require.NoError(t, err)
	c.client, c.closeConnections = newLeakyClient(ledger), ledger.CloseIdleConnections
	c.buildBatch = func(t *testing.T, i int) batch.Batch {
		payload, address := splintertest.Inc(secretName, 1)
		if isInvalid(i) {
			payload = []byte(secretName) // appears in errors as "a payload of 1 words"
		}
		b, err := sawtooth.Build(key, network.Service(0), sawtooth.Transaction{
			FamilyName: splintertest.Family, FamilyVersion: splintertest.FamilyVersion, Nonce: strconv.Itoa(i),
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		require.NoError(t, err)
		return b
	}
	return c
}

func newLeakySawtooth(t *testing.T) *leakyLedger {
	node := sawtoothtest.Start(t, &sawtoothtest.Options{BlockInterval: 20 * time.Millisecond})
	c := &leakyLedger{proxy: newLeakingProxy(t, node), store: memory.New()}
	key, err := sawtooth.ParsePrivateKey(secretKey)
	require.NoError(t, err)
	ledger, err := sawtooth.New("http://"+c.proxy.address+"/"+secretPath, &sawtooth.Options{
		Header: http.Header{"Authorization": {"Bearer " + secretToken}},
		Grace:  100 * time.Millisecond, ResendQuiet: 100 * time.Millisecond, Settle: 50 * time.Millisecond, Receipts: true,
	})
	require.NoError(t, err)
	c.client, c.closeConnections = newLeakyClient(ledger), ledger.CloseIdleConnections
	c.buildBatch = func(t *testing.T, i int) batch.Batch {
		payload, address := sawtoothtest.Set(secretName+strconv.Itoa(i), 1)
		if isInvalid(i) {
			payload = append([]byte{0xff}, payload...) // makes it invalid CBOR
		}
		b, err := sawtooth.Build(key, "s", sawtooth.Transaction{
			FamilyName: "intkey", FamilyVersion: "1.0", Nonce: strconv.Itoa(i),
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		require.NoError(t, err)
		return b
	}
	return c
}

// printErrors prints an error and all errors that it wraps, down to the cause of a [dlt.Error].
// The errors below the cause are net/http's, with texts of net/http.
func printErrors(out *logBuffer, err error) {
	if err == nil {
		return
	}
	fmt.Fprintf(out, "%v\n%+v\n%q\n", err, err, err)
	switch w := err.(type) { //nolint:errorlint // it walks the tree
	case *dlt.Error:
		fmt.Fprintf(out, "%v\n%+v\n", *w, *w)
	case interface{ Unwrap() error }:
		printErrors(out, w.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range w.Unwrap() {
			printErrors(out, inner)
		}
	}
}

// printedCalls prints what a CallObserver gets.
type printedCalls struct{ out *logBuffer }

func (o printedCalls) ObserveCall(_ context.Context, c batch.Call) {
	fmt.Fprintf(o.out, "%v\n%+v\n", c, c)
	printErrors(o.out, c.Err)
}

// run delivers batches until every change was made. It returns all that was logged, observed and
// recorded.
func (c *leakyLedger) run(t *testing.T) string {
	out := c.client.out
	handler := &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}
	var refused atomic.Bool
	r := newRunner(t, c.store, c.client.ledger, &dltbatch.Options{
		RequestTimeout: time.Second, ClaimTTL: 1500 * time.Millisecond, PollInterval: 20 * time.Millisecond,
		Retry:      dltbatch.RetryPolicy{Delay: 5 * time.Millisecond, MaxDelay: 20 * time.Millisecond, QuickRetryPause: 5 * time.Millisecond},
		StuckAfter: time.Second,
		Logger:     slog.New(slog.NewMultiHandler(slog.NewTextHandler(out, handler), slog.NewJSONHandler(out, handler))),
		Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			fmt.Fprintf(out, "%v\n%+v\n", e, e)
			printErrors(out, e.Err)
			if errors.Is(e.Err, dlt.ErrUnavailable) {
				refused.Store(true)
			}
		}),
		Observers: []batch.Observer{batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			text, err := json.Marshal(e)
			assert.NoError(t, err)
			fmt.Fprintf(out, "%s\n", text)
		})},
		Calls: printedCalls{out},
	})
	stop := startRun(t, r)
	health := func() {
		h := r.Health()
		fmt.Fprintf(out, "%v\n%+v\n", h, h)
		printErrors(out, h.Trouble)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	follow := func(b batch.Batch) {
		require.NoError(t, r.Add(ctx, b))
		require.Eventually(t, func() bool {
			health()
			rec, err := r.Get(ctx, b.Key())
			require.NoError(t, err)
			fmt.Fprintf(out, "%v\n%+v\n%+v\n", rec, rec, rec.Receipts)
			if rec.Error != nil {
				printErrors(out, rec.Error)
			}
			if rec.Decision != "" {
				fmt.Fprintln(out, rec.Decision)
				_, err = c.store.Decide(ctx, rec, batch.NotExecutedSendAgain, batch.By{Actor: "test", Reason: "so be it"})
				printErrors(out, err)
			}
			return rec.Final()
		}, 3*time.Minute, 15*time.Millisecond)
	}
	i := 0
	for ; i < 6 || !c.proxy.allChangesMade(); i++ {
		require.NoError(t, ctx.Err(), "not every change was made: %v", c.proxy.changesLeft)
		follow(c.buildBatch(t, i))
	}
	c.proxy.stop()
	last := c.buildBatch(t, 3*i)
	require.NoError(t, r.Add(ctx, last))
	require.Eventually(t, refused.Load, time.Minute, time.Millisecond)
	health()
	c.proxy.start(t)
	follow(last)

	mangled := c.buildBatch(t, 3*i+3)
	mangled.ID = mangled.ID[:127] + "?"
	err := r.Add(ctx, mangled)
	require.Error(t, err)
	printErrors(out, err)
	require.NoError(t, stop())
	all, _, err := c.store.List(t.Context(), store.ListQuery{Limit: 1000})
	require.NoError(t, err)
	states := map[batch.State]int{}
	for _, rec := range all {
		fmt.Fprintf(out, "%+v\n", rec)
		states[rec.State]++
	}
	t.Logf("%d batches: %v; %v; %d bytes of text", len(all), states, c.proxy.changesMade, len(out.String()))
	require.NotZero(t, states[batch.Committed])
	require.NotZero(t, states[batch.Invalid])
	require.NotZero(t, states[batch.Rejected])
	c.closeConnections()
	return out.String()
}

// cylinderSignature returns the secret part of the JWT: the other parts hold the public key.
func cylinderSignature(t *testing.T) string {
	t.Helper()
	key, err := sawtooth.ParsePrivateKey(secretKey)
	require.NoError(t, err)
	token, err := splinter.CylinderToken(key)(t.Context(), "")
	require.NoError(t, err)
	return token[strings.LastIndexByte(token, '.')+1:]
}

// No token, no private key and no payload appears in logs, events, records or returned errors,
// even if the other side repeats them.
func TestSecretsDoNotShow(t *testing.T) {
	t.Run("splinter", func(t *testing.T) {
		t.Parallel()
		assert.Empty(t, findSecrets(newLeakySplinter(t).run(t), secretForms(t, cylinderSignature(t))))
	})
	t.Run("sawtooth", func(t *testing.T) {
		t.Parallel()
		assert.Empty(t, findSecrets(newLeakySawtooth(t).run(t), secretForms(t)))
	})
}

// TestSecretsDoNotShow would find each secret, wherever one leaked.
func TestSecretsWouldShow(t *testing.T) {
	for name, leak := range map[string]struct {
		secret string
		leak   func(ctx context.Context, log *slog.Logger, payload []byte) error
	}{
		"a header in an error that passes": {"token 0", func(context.Context, *slog.Logger, []byte) error {
			return &dlt.Error{Op: "submit", Kind: dlt.ErrBusy, Message: "sent Authorization: Bearer " + secretToken}
		}},
		"a part of a token in a record": {"token 0", func(context.Context, *slog.Logger, []byte) error {
			return &dlt.Error{Op: "submit", Kind: dlt.ErrRejected, Message: secretToken[:20]}
		}},
		"a key in an error's cause": {"private key", func(context.Context, *slog.Logger, []byte) error {
			return &dlt.Error{Op: "submit", Kind: dlt.ErrBusy, Err: errors.New("signed with " + strings.ToUpper(secretKey))}
		}},
		"a payload in the log": {"payload", func(ctx context.Context, log *slog.Logger, payload []byte) error {
			log.DebugContext(ctx, "posting", slog.Any("payload", payload))
			return nil
		}},
		"a payload as numbers": {"payload", func(ctx context.Context, log *slog.Logger, payload []byte) error {
			log.DebugContext(ctx, fmt.Sprintf("posting %d", payload))
			return nil
		}},
		"a payload in base64": {"payload", func(ctx context.Context, log *slog.Logger, payload []byte) error {
			log.DebugContext(ctx, "posting "+base64.StdEncoding.EncodeToString(payload))
			return nil
		}},
		"a payload in hex": {"payload", func(ctx context.Context, log *slog.Logger, payload []byte) error {
			log.DebugContext(ctx, fmt.Sprintf("posting %x", payload))
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newLeakySplinter(t)
			c.proxy.changesLeft = map[string][]answerChange{"submit": {answers400}}
			log := slog.New(slog.NewTextHandler(c.client.out, &slog.HandlerOptions{Level: slog.LevelDebug}))
			var once sync.Once
			c.client.leakError = func(a batch.Attempt) (err error) {
				once.Do(func() { err = leak.leak(t.Context(), log, a.Payload) })
				return err
			}
			where := findSecrets(c.run(t), secretForms(t, cylinderSignature(t)))
			assert.Len(t, where, 1)
			assert.Contains(t, where, leak.secret)
		})
	}
}
