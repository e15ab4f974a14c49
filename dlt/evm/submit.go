package evm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

const opSubmit = "submit"

// Submit implements [dlt.Submitter]. It posts one transaction, of alternatives the one that
// Prepare has chosen last, and only if no earlier nonce of the account is missing: otherwise its
// error is [dlt.ErrNotYet]. The error is also ErrNotYet for alternatives that were not prepared,
// or whose stored bytes this client cannot read. nil means only that a node has a transaction of
// the batch in its pool or in a block. A refusal by a rule of the chain is ErrNotYet, and
// [dlt.ErrRejected] once a node refuses the transaction in the same way at a later head. The error
// is a [*dlt.Error]. After an error that concerns the endpoint (see Options.Fallbacks), this
// Submit fails and the next one goes to the next fallback.
func (c *Client) Submit(ctx context.Context, a batch.Attempt) error {
	p, err := c.readPayload(a.Key, a.Payload)
	if err != nil {
		return &dlt.Error{Op: opSubmit, Kind: dlt.ErrRejected, Message: c.shownText(err.Error())}
	}
	at := 0
	if len(p.txs) > 1 {
		s, err := p.readSlot(a.Prepared)
		if err != nil {
			return c.unreadableError(opSubmit, a.Key, err)
		}
		at = s.lastAllowedIndex()
	}
	key := a.Key
	a.Key.ID, a.Payload = batch.ID(p.hashes[at].String()), p.encodedTxs[at]
	return c.onPreferred(ctx, key, func(e *endpoint) error {
		s := submission{Client: c, endpoint: e, attempt: a, tx: p.txs[at], sender: p.sender, batchHashes: p.hashes}
		return s.submit(ctx)
	})
}

// unreadableError returns the error for prepared bytes that this client cannot read. Nothing is
// posted for them, and they do not make the batch void. Other batches are not affected.
func (c *Client) unreadableError(op string, key batch.Key, err error) error {
	return &dlt.Error{Op: op, Kind: dlt.ErrNotYet, Message: c.shownText(fmt.Sprintf("batch %s: %v", key, err))}
}

// submission is one call of Submit.
type submission struct {
	*Client
	endpoint *endpoint
	attempt  batch.Attempt // attempt of this transaction alone
	tx       *evmtx.Tx
	sender   evmtx.Address
	// batchHashes are the hashes of all transactions of the batch, which have one nonce. This
	// transaction is among them.
	batchHashes []evmtx.Hash
	// getsNewNonce is true if the batch gets another nonce when another transaction has used this
	// one.
	getsNewNonce bool
	// closesNonce is true if this transaction closes the nonce of a batch that was withdrawn. It
	// is then no acceptance if the node has another transaction of the batch.
	closesNonce bool
}

func (s *submission) submit(ctx context.Context) error {
	if err := s.checkNode(ctx, false); err != nil {
		return err
	}
	before := sighting{seenAt: time.Now(), head: s.endpoint.recentBlocks.lastHead()}
	verdict, err := s.send(ctx, false)
	if errors.Is(err, errNewConnection) {
		// No question has been answered over this connection yet: checkNode asks one, perhaps over
		// another connection.
		if err := s.checkNode(ctx, true); err != nil {
			return err
		}
		verdict, err = s.send(ctx, true)
	}
	if err != nil {
		return err
	}
	if verdict.class == classAccepted && !verdict.isNew {
		// The node has a transaction already, which may be another one: only the hash says which.
		if known, err := s.isKnownToNode(ctx); err != nil || !known {
			verdict.message += ", and the node does not show this transaction"
			return s.newError(dlt.ErrDoubt, verdict)
		}
	}
	if verdict.class == classAccepted {
		s.refusals.forget(string(s.attempt.ID))
		s.endpoint.nextNonces.noteAccepted(s.sender, s.tx.Nonce, time.Now())
		if verdict.isNew && len(s.batchHashes) == 1 {
			before.tx = &pooledTx{Hash: string(s.attempt.ID), Nonce: json.RawMessage(strconv.Quote(hexQuantity(s.tx.Nonce))), FeeCap: "0x" + s.tx.FeeCap.Text(16)}
			if s.tx.Type == evmtx.Blob {
				before.tx.Blob = "0x" + s.tx.BlobFeeCap.Text(16)
			}
			s.endpoint.recentBlocks.notePooled(s.batchHashes[0], before)
		}
		return nil
	}
	return s.handleRefusal(ctx, verdict)
}

// checkNode asks for what is not known yet: whether the node is of the right chain, and which
// nonce of the account it takes next.
func (s *submission) checkNode(ctx context.Context, again bool) error {
	now := time.Now()
	known, next := s.endpoint.identity.isFresh(now) && !again, s.endpoint.nextNonces.isNext(s.sender, s.tx.Nonce, now)
	if known && next {
		return nil
	}
	reqs := append(identityRequests(), request{"eth_getTransactionCount", []any{s.sender.String(), "pending"}})
	answers, err := s.ask(ctx, opSubmit, s.endpoint, reqs)
	if err != nil {
		return doubtAsUnavailable(s.asLedgerError(opSubmit, err))
	}
	if err := s.identify(ctx, opSubmit, s.endpoint, answers); err != nil {
		return doubtAsUnavailable(err)
	}
	if next {
		return nil
	}
	count, err := decodeNumber(answers[2])
	if err != nil {
		return doubtAsUnavailable(&dlt.Error{Op: opSubmit, Kind: kindOfAny(answers), Message: s.shownText("next nonce: " + err.Error())})
	}
	if s.tx.Nonce > count {
		return &dlt.Error{Op: opSubmit, Kind: dlt.ErrNotYet, Err: errNonceGap, Message: fmt.Sprintf("nonce %d, and the account's next is %d", s.tx.Nonce, count)}
	}
	return nil
}

// doubtAsUnavailable changes the kind of a question's error from doubt to ErrUnavailable, because
// nothing was posted.
func doubtAsUnavailable(err error) error {
	if e, ok := errors.AsType[*dlt.Error](err); ok && dlt.Kind(err) == batch.KindDoubt {
		e.Kind = dlt.ErrUnavailable
	}
	return err
}

// verdict is the meaning of a node's answer to a send.
type verdict struct {
	class      answerClass
	status     int
	code       int
	message    string
	retryAfter time.Duration
	isNew      bool // true if the node did not have the transaction before
}

// errNewConnection means that nothing was sent, because the connection has served no request
// before.
var errNewConnection = errors.New("nobody has asked over this connection which chain it leads to")

// send posts the transaction. If anyway is false, it sends nothing over a new connection and
// returns errNewConnection. Any other error is a [*dlt.Error].
func (s *submission) send(ctx context.Context, anyway bool) (verdict, error) {
	const head, tail = `{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x`, `"]}`
	text := make([]byte, 0, len(head)+hex.EncodedLen(len(s.attempt.Payload))+len(tail)) // one copy only, because blobs are long
	text = append(hex.AppendEncode(append(text, head...), s.attempt.Payload), tail...)
	var old atomic.Bool
	old.Store(true) // for a transport without hooks, which does not tell
	body := &guardedBody{text: bytes.NewReader(text), isReused: &old, allowsNew: anyway}
	resp, cancel, err := s.post(ctx, opSubmit, s.endpoint, body, len(text), &old) //nolint:bodyclose // drain closes it
	if err != nil {
		if body.wasRefused.Load() {
			return verdict{}, errNewConnection
		}
		return verdict{}, err
	}
	defer cancel()
	defer wire.Drain(resp.Body, cancel)
	raw, _ := wire.ReadShortBody(resp.Body, cancel) // the bytes before a read error still count
	return s.readVerdict(resp, raw), nil
}

// guardedBody is the body of a request that must not be read on a new connection.
type guardedBody struct {
	text       io.Reader
	isReused   *atomic.Bool
	allowsNew  bool
	wasRefused atomic.Bool
}

// Read implements [io.Reader].
func (b *guardedBody) Read(p []byte) (int, error) {
	if !b.allowsNew && !b.isReused.Load() {
		b.wasRefused.Store(true)
		return 0, errNewConnection
	}
	return b.text.Read(p)
}

// readVerdict reads the answer to a send. A status that refuses this client decides first, because
// its text may be a gateway's, about the gateway's own signatures. Otherwise a known text decides,
// under any code. Without a known text, a proxy's status decides. Any other answer is doubt.
func (s *submission) readVerdict(resp *http.Response, raw []byte) verdict {
	v := verdict{class: classDoubt, status: resp.StatusCode}
	var one answerDoc
	if err := json.Unmarshal(raw, &one); err != nil {
		one = answerDoc{}
	}
	var hash string
	proxy := classOfStatus(resp.StatusCode)
	switch {
	case one.Err != nil:
		v.class, v.code, v.message = classify(one.Err), one.Err.Code, s.shownText(one.Err.Message)
		if resp.StatusCode != http.StatusOK && (v.class == classDoubt || v.class == classMisconfigured || proxy != classDoubt) {
			v.class = proxy
		}
	case resp.StatusCode != http.StatusOK || one.Result == nil:
		v.class, v.message = proxy, s.shownText(string(raw))
		if proxy == classDoubt && saysBusy(string(raw)) {
			v.class = classBusy
		}
	case json.Unmarshal(one.Result, &hash) == nil && hash == string(s.attempt.ID):
		v.class, v.isNew = classAccepted, true
	case hash != "":
		v.message = s.shownText("the node answers with the hash " + hash)
	default:
		v.message = s.shownText("no hash: " + string(raw))
	}
	if v.class == classBusy {
		v.retryAfter = wire.RetryAfter(resp.Header, time.Now())
	}
	return v
}

// classOfStatus returns the class of an answer that is not a node's. A proxy's 5xx says nothing
// about the node behind it.
func classOfStatus(status int) answerClass {
	switch {
	case status == http.StatusTooManyRequests:
		return classBusy
	case wire.Refuses(status):
		return classMisconfigured
	}
	return classDoubt
}

// handleRefusal turns a refusal into an error. The reason for a refusal may be an earlier send of
// the same bytes: then the node knows them, and the transaction counts as accepted.
func (s *submission) handleRefusal(ctx context.Context, v verdict) error {
	switch v.class {
	case classBusy:
		return s.newError(dlt.ErrBusy, v)
	case classMisconfigured:
		s.endpoint.identity.forget()
		return s.newError(dlt.ErrMisconfigured, v)
	case classNotYet, classNever:
		if s.attempt.Number == 1 {
			break
		}
		if known, err := s.isKnownToNode(ctx); err != nil {
			return s.newError(dlt.ErrDoubt, v)
		} else if known {
			return nil
		}
	case classUsed:
		return s.handleUsed(ctx, v)
	default:
		if v.status != http.StatusOK || v.code == 0 { // not the node's own answer: the transaction may still arrive there
			return s.newError(dlt.ErrDoubt, v)
		}
		if known, err := s.isKnownToNode(ctx); err == nil && known {
			return nil
		}
		return s.newError(dlt.ErrDoubt, v)
	}
	if v.class == classNotYet {
		return s.newError(dlt.ErrNotYet, v)
	}
	return s.handleNever(ctx, v)
}

// handleNever handles a refusal which says that the chain can never execute the transaction. The
// node may follow old rules, so the transaction is refused for good only when it is refused again
// at a later head.
func (s *submission) handleNever(ctx context.Context, v verdict) error {
	view, _, err := s.askView(ctx, opSubmit, s.endpoint, nil)
	if err == nil && s.refusals.isRepeated(string(s.attempt.ID), view.head.number) {
		return s.newError(dlt.ErrRejected, v)
	}
	out := s.newError(dlt.ErrNotYet, v)
	out.Err = errAskAnother
	return out
}

func (s *submission) newError(kind error, v verdict) *dlt.Error {
	status := v.status
	if status == http.StatusOK {
		status = 0 // as for every refusal of a node
	}
	return &dlt.Error{Op: opSubmit, Kind: kind, StatusCode: status, Code: v.code, Message: v.message, RetryAfter: v.retryAfter}
}

// isKnownToNode asks whether the node has the transaction, or another one of its batch, in its
// pool or in a block.
func (s *submission) isKnownToNode(ctx context.Context) (bool, error) {
	ours := s.batchHashes
	if s.closesNonce {
		ours = []evmtx.Hash{s.tx.Hash()}
	}
	var requests []request
	for _, h := range ours {
		requests = append(requests, lookupRequests(h.String())...)
	}
	answers, err := s.ask(ctx, opSubmit, s.endpoint, requests)
	if err != nil {
		return false, err
	}
	var failed error
	for i, a := range answers {
		var foundTx struct {
			Hash    string `json:"hash"`
			Receipt string `json:"transactionHash"`
		}
		switch {
		case !a.hasResult():
			failed = errors.New("no answer")
		case a.isNull() || json.Unmarshal(a.result, &foundTx) != nil:
		default:
			if h, ok := evmtx.ParseHash(cmp.Or(foundTx.Hash, foundTx.Receipt)); ok && h == ours[i/2] {
				return true, nil // the other answers do not matter
			}
		}
	}
	return false, failed
}

func lookupRequests(hash string) []request {
	return []request{{"eth_getTransactionReceipt", []any{hash}}, {"eth_getTransactionByHash", []any{hash}}}
}

// handleUsed handles "nonce too low". The answer alone says neither that the transaction was mined
// nor that it never will be: other bytes may have used the nonce, in a block that is not deep yet.
func (s *submission) handleUsed(ctx context.Context, v verdict) error {
	if known, err := s.isKnownToNode(ctx); err != nil || known {
		if known {
			return nil
		}
		return s.newError(dlt.ErrDoubt, v)
	}
	if s.getsNewNonce { // the statuses will prove which transaction used the nonce, and then the batch gets another nonce
		return s.newError(dlt.ErrDoubt, v)
	}
	proof, err := s.findUse(ctx, opSubmit, s.endpoint, s.sender, s.tx.Nonce, unknownHeight, s.batchHashes)
	if err != nil || proof.user != nonceUsedByAnother {
		return s.newError(dlt.ErrDoubt, v)
	}
	v.message = proof.text(s.tx.Nonce)
	return s.newError(dlt.ErrRejected, v)
}
