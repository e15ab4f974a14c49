package evm_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/dlttest"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
	"github.com/dltbatch/dltbatch/internal/hooked"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// nodeProxy stands in front of a node. It counts the requests, and does what a proxy may do and a
// node never does. A batch that the suite makes and never sends would leave a nonce gap, which
// nodeProxy fills.
type nodeProxy struct {
	*dlttest.Server
	t    dlttest.TB
	node *evmtest.Node

	mu             sync.Mutex
	nextNonces     map[batch.ServiceID]uint64 // how many batches were made, and so the next nonce
	nonces         map[batch.ID]uint64
	signers        map[batch.ID]evmtest.Account
	abandonedBatch batch.ID            // somebody else uses this batch's nonce once the client asks who used it
	idsByData      map[string]batch.ID // by their data

	// sendsIntents is true if the batches are intents. Then nodeProxy fills no gaps, since the
	// client leaves none.
	sendsIntents      bool
	sendsAlternatives bool // the batches are alternatives
}

// revertingContract is the address of code that reverts every call.
const revertingContract = "0x00000000000000000000000000000000000c0de0"

func startConformance(t dlttest.TB, o *evmtest.Options, heads time.Duration, lists bool) *dlttest.Harness {
	d := &nodeProxy{
		t: t, sendsAlternatives: lists, nextNonces: map[batch.ServiceID]uint64{}, nonces: map[batch.ID]uint64{},
		signers: map[batch.ID]evmtest.Account{}, idsByData: map[string]batch.ID{},
	}
	return d.start(o, func(o evm.Options) (dlt.Ledger, func()) {
		client, err := evm.New(d.URLs()[0], 1337, &o)
		require.NoError(t, err)
		if lists {
			return withPreparing(client, false), client.CloseIdleConnections
		}
		return client, client.CloseIdleConnections
	}, heads)
}

// startIntentConformance is startConformance for a SigningClient.
func startIntentConformance(t dlttest.TB, o *evmtest.Options, heads time.Duration) *dlttest.Harness {
	d := &nodeProxy{t: t, nextNonces: map[batch.ServiceID]uint64{}, sendsIntents: true, idsByData: map[string]batch.ID{}}
	return d.start(o, func(o evm.Options) (dlt.Ledger, func()) {
		signer, err := evm.NewKeySigner(evmtest.Dev(0).Key(), evmtest.Dev(1).Key())
		require.NoError(t, err)
		client, err := evm.NewSigner(d.URLs()[0], 1337, signer, &evm.SignerOptions{Options: o})
		require.NoError(t, err)
		return withPreparing(client, true), client.CloseIdleConnections
	}, heads)
}

func (d *nodeProxy) start(o *evmtest.Options, client func(evm.Options) (dlt.Ledger, func()), heads time.Duration) *dlttest.Harness {
	t := d.t
	o.ChainID = 1337
	d.node = evmtest.NewNode(o)
	d.node.SetCode(revertingContract, []byte{0x60, 0, 0x60, 0, 0xfd})
	t.Cleanup(d.node.Close)
	d.Server = dlttest.NewServer(t, 1, d)
	var ledger dlt.Ledger
	ledger, d.CloseIdle = client(evm.Options{Finality: evm.Instant(), LateArrival: 50 * time.Millisecond, Grace: 50 * time.Millisecond, HeadInterval: heads})
	t.Cleanup(d.CloseIdle)
	off := map[string]string{}
	if heads == 0 {
		off["Streams"] = "Options.HeadInterval is 0"
	}
	return &dlttest.Harness{
		SwitchedOff: off, Lacks: map[dlttest.Fault]string{dlttest.Refused: "one refusal ends no batch: TestOneRefusalEndsNothing has the second"}, Ledger: ledger, Batch: d.batch, Set: d.Set, Posts: d.Posts, LargestQuery: d.LargestQuery, RetryAfter: 7 * time.Second,
		Services: []batch.ServiceID{batch.ServiceID(evmtest.Dev(0).Address()), batch.ServiceID(evmtest.Dev(1).Address())},
	}
}

func (d *nodeProxy) batch(s batch.ServiceID, content string) batch.Batch {
	from := evmtest.Dev(0)
	if s != batch.ServiceID(from.Address()) {
		from = evmtest.Dev(1)
	}
	to := evmtest.Dev(5).Address()
	if d.Fault() == dlttest.Decided {
		to = revertingContract
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sendsIntents {
		d.nextNonces[s]++
		id := batch.ID(fmt.Sprintf("%s %d", s, d.nextNonces[s]))
		b, err := evm.Intent{To: to, Gas: 60_000, Data: []byte(content)}.Batch(id, string(s))
		require.NoError(d.t, err)
		d.idsByData[content] = id
		return b
	}
	u := evmtest.Unsigned{ChainID: 1337, Nonce: d.nextNonces[s], To: to, Gas: 60_000, Data: []byte(content)}
	raw, hash := from.Sign(u)
	d.nonces[batch.ID(hash)], d.signers[batch.ID(hash)] = d.nextNonces[s], from
	d.nextNonces[s]++
	if d.sendsAlternatives {
		u.Tip, u.FeeCap = big.NewInt(2e9), big.NewInt(60e9)
		higher, other := from.Sign(u)
		payload, err := evm.Alternatives(raw, higher)
		require.NoError(d.t, err)
		d.idsByData[hash], d.idsByData[other] = batch.ID(hash), batch.ID(hash)
		raw = payload
	}
	return batch.Batch{ID: batch.ID(hash), Service: s, Payload: raw}
}

type rpcCall struct {
	ID     int    `json:"id"`
	Method string `json:"method"`
	Params []any  `json:"params"`
}

// ServeHTTP implements [http.Handler].
func (d *nodeProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has cancelled the request
	}
	var calls []rpcCall
	if json.Unmarshal(body, &calls) != nil {
		var one rpcCall
		if json.Unmarshal(body, &one) == nil {
			calls = append(calls, one)
		}
	}
	send, receipts := -1, 0
	for i, c := range calls {
		switch c.Method {
		case "eth_sendRawTransaction":
			send = i
		case "eth_getTransactionReceipt":
			receipts++
		}
	}
	d.Queried(receipts)
	switch {
	case d.Fault() == dlttest.StreamCut && calls[0].Method == "eth_blockNumber":
		panic(http.ErrAbortHandler)
	case send >= 0:
		d.send(w, r, d.idOfTransaction(fromHex(calls[send].Params[0].(string))), body)
	case receipts > 0:
		d.statuses(w, r, body)
	default:
		d.mu.Lock()
		lost := d.abandonedBatch
		d.mu.Unlock()
		if d.sendsIntents {
			_, _ = w.Write(d.forward(r, body, nil))
			return
		}
		if lost != "" && calls[0].Method == "eth_getTransactionCount" {
			d.fillNonceGap(lost, 1)
		}
		_, _ = w.Write(d.forward(r, body, func(answers []map[string]any) []map[string]any {
			for _, a := range answers {
				c := calls[slices.IndexFunc(calls, func(c rpcCall) bool { return float64(c.ID) == a["id"] })]
				if c.Method == "eth_getTransactionCount" && c.Params[1] == "pending" { // gaps are filled when a later nonce is asked for
					a["result"] = "0xffff"
				}
			}
			return answers
		}))
	}
}

// idOfTransaction returns the batch id of a transaction.
func (d *nodeProxy) idOfTransaction(raw []byte) batch.ID {
	if !d.sendsIntents {
		b, err := evm.NewBatch(raw)
		require.NoError(d.t, err)
		d.mu.Lock()
		defer d.mu.Unlock()
		return cmp.Or(d.idsByData[string(b.ID)], b.ID)
	}
	tx, err := evmtx.Decode(raw)
	require.NoError(d.t, err)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.idsByData[string(tx.Data)]
}

// preparingLedger does the work of the store and the lanes around a client. It calls Prepare
// before each post and keeps the result. While nonces are not chosen yet, it sends one batch of an
// account at a time.
type preparingLedger struct {
	client   dlt.Ledger
	isSerial bool
	lanes    sync.Map

	mu            sync.Mutex
	preparedByKey map[batch.Key][]byte
}

func withPreparing(l dlt.Ledger, serial bool) dlt.Ledger {
	k := &preparingLedger{client: l, isSerial: serial, preparedByKey: map[batch.Key][]byte{}}
	return hooked.Wrap(l, hooked.Hooks{Submit: k.submit, BatchStatuses: k.statuses})
}

func (k *preparingLedger) preparedOf(key batch.Key) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.preparedByKey[key]
}

func (k *preparingLedger) keepPrepared(key batch.Key, bytes []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.preparedByKey[key] = bytes
}

func (k *preparingLedger) submit(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) error) error {
	if k.isSerial {
		lane, _ := k.lanes.LoadOrStore(a.Service, &sync.Mutex{})
		lane.(*sync.Mutex).Lock()
		defer lane.(*sync.Mutex).Unlock()
	}
	a.Prepared = k.preparedOf(a.Key)
	prepared, err := k.client.Prepare(ctx, a)
	for range 100 { // until the batch before it is mined
		if dlt.Kind(err) != batch.KindNotYet || ctx.Err() != nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
		prepared, err = k.client.Prepare(ctx, a)
	}
	if err != nil {
		return err
	}
	a.Prepared = prepared
	k.keepPrepared(a.Key, prepared)
	return next(ctx, a)
}

func (k *preparingLedger) statuses(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt, next func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error)) ([]batch.Status, error) {
	attempts = slices.Clone(attempts)
	for i := range attempts {
		attempts[i].Prepared = k.preparedOf(attempts[i].Key)
	}
	return next(ctx, service, attempts)
}

// forward forwards the request to the node, and changes the answers by bend.
func (d *nodeProxy) forward(r *http.Request, body []byte, bend func([]map[string]any) []map[string]any) []byte {
	rec := httptest.NewRecorder()
	again := httptest.NewRequest(http.MethodPost, r.URL.String(), bytes.NewReader(body))
	again.Header = r.Header
	d.node.ServeHTTP(rec, again)
	var answers []map[string]any
	if bend == nil || json.Unmarshal(rec.Body.Bytes(), &answers) != nil {
		return rec.Body.Bytes()
	}
	out, err := json.Marshal(bend(answers))
	require.NoError(d.t, err)
	return out
}

func (d *nodeProxy) send(w http.ResponseWriter, r *http.Request, id batch.ID, body []byte) {
	fault := d.Fault()
	taken := slices.Contains([]dlttest.Fault{dlttest.None, dlttest.Decided, dlttest.LostReply, dlttest.Hang}, fault) || strings.HasPrefix(string(fault), "status")
	if taken && !d.sendsIntents {
		d.fillNonceGap(id, 0)
	}
	d.Posted(id)
	var answer []byte
	if taken || (fault == dlttest.Redirect && r.URL.Path == "/elsewhere") {
		answer = d.forward(r, body, nil)
	}
	refuse := func(text string) {
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"`+text+`"}}`)
	}
	switch fault {
	case dlttest.Busy:
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	case dlttest.Misconfigured:
		w.WriteHeader(http.StatusUnauthorized)
	case dlttest.NotYet:
		refuse("insufficient funds for gas * price + value: balance 0, tx cost 1, overshot 1")
	case dlttest.UnknownAnswer:
		refuse("gremlins")
	case dlttest.Redirect:
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	case dlttest.LostRequest:
		d.mu.Lock()
		d.abandonedBatch = id
		d.mu.Unlock()
		panic(http.ErrAbortHandler) // closes the connection
	case dlttest.LostReply:
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	case dlttest.Hang:
		<-r.Context().Done()
	default:
		_, _ = w.Write(answer)
	}
}

// fillNonceGap uses the nonces before the batch's own that nobody sends, and as many from its own
// on as own says.
func (d *nodeProxy) fillNonceGap(id batch.ID, own uint64) {
	d.mu.Lock()
	nonce, from := d.nonces[id]+own, d.signers[id]
	d.mu.Unlock()
	for range 100 { // other batches may be on their way
		if _, pending := d.node.Nonce(from.Address()); pending >= nonce {
			return
		}
		time.Sleep(time.Millisecond)
	}
	for {
		_, pending := d.node.Nonce(from.Address())
		if pending >= nonce {
			return
		}
		raw, _ := from.Sign(evmtest.Unsigned{ChainID: 1337, Nonce: pending, To: from.Address(), Value: big.NewInt(1)})
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["`+toHex(raw)+`"]}`))
		req.Header.Set("Content-Type", "application/json")
		d.node.ServeHTTP(httptest.NewRecorder(), req)
	}
}

// statuses answers a question for receipts, with the fault that is asked for. In the answers, the
// receipts come after the node's identity and one or two blocks.
func (d *nodeProxy) statuses(w http.ResponseWriter, r *http.Request, body []byte) {
	first := func(answers []map[string]any) int {
		return slices.IndexFunc(answers, func(a map[string]any) bool {
			result, ok := a["result"].(map[string]any)
			return ok && result["transactionHash"] != nil
		})
	}
	switch fault := d.Fault(); fault {
	case dlttest.StatusLost:
		panic(http.ErrAbortHandler)
	case dlttest.StatusHang:
		<-r.Context().Done()
	case dlttest.StatusGarbage:
		_, _ = io.WriteString(w, "<html>")
	default:
		_, _ = w.Write(d.forward(r, body, func(answers []map[string]any) []map[string]any {
			i := first(answers)
			switch {
			case i < 0:
			case fault == dlttest.StatusUnknownWord:
				answers[i]["result"].(map[string]any)["status"] = "0x7"
			case fault == dlttest.StatusMissing:
				return slices.Delete(answers, i, i+1)
			case fault == dlttest.StatusStranger:
				stranger := map[string]any{"jsonrpc": "2.0", "id": 9999, "result": answers[i]["result"]}
				return append([]map[string]any{stranger}, answers...)
			case fault == dlttest.StatusShuffled:
				slices.Reverse(answers)
			}
			return answers
		}))
	}
}

// The suite passes with each kind of node but a provider, whose backends disagree about the last
// block. The suite would take that for a broken promise; tests of lanes use a provider.
func TestConformance(t *testing.T) {
	for name, c := range map[string]struct {
		node  evmtest.Personality
		heads time.Duration
	}{"geth": {evmtest.Geth, 5 * time.Millisecond}, "anvil": {node: evmtest.Anvil}} {
		t.Run(name, func(t *testing.T) {
			if c.node != evmtest.Geth {
				tier.Plain(t)
			}
			dlttest.Run(t, func(t dlttest.TB) *dlttest.Harness {
				return startConformance(t, &evmtest.Options{Personality: c.node}, c.heads, false)
			})
		})
	}
}

// The suite passes with batches of alternatives.
func TestAlternativeConformance(t *testing.T) {
	tier.Plain(t)
	for _, p := range []evmtest.Personality{evmtest.Geth, evmtest.Anvil} {
		t.Run(string(p), func(t *testing.T) {
			dlttest.Run(t, func(t dlttest.TB) *dlttest.Harness {
				return startConformance(t, &evmtest.Options{Personality: p}, 0, true)
			})
		})
	}
}

// The suite passes with a SigningClient.
func TestIntentConformance(t *testing.T) {
	for name, c := range map[string]struct {
		node  evmtest.Personality
		heads time.Duration
	}{"geth": {evmtest.Geth, 5 * time.Millisecond}, "anvil": {node: evmtest.Anvil}} {
		t.Run(name, func(t *testing.T) {
			if c.node != evmtest.Geth {
				tier.Plain(t)
			}
			dlttest.Run(t, func(t dlttest.TB) *dlttest.Harness {
				return startIntentConformance(t, &evmtest.Options{Personality: c.node}, c.heads)
			})
		})
	}
}
