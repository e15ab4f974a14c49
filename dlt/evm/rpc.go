package evm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
	"github.com/dltbatch/dltbatch/internal/redact"
)

// request is one call of a node's method.
type request struct {
	method string
	params []any
}

// answer is a node's answer to one request. All fields are zero if the answer is missing.
type answer struct {
	result json.RawMessage
	err    *rpcError
}

// hasResult reports whether the node answered with a result, which may be null.
func (a answer) hasResult() bool { return a.err == nil && len(a.result) > 0 }

// isNull reports whether the node answered with null: it has nothing under the requested name.
func (a answer) isNull() bool { return a.hasResult() && string(a.result) == "null" }

// rpcError is the error in a node's answer.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// errArrayRefused means that the node, or a proxy, refuses an array of this length.
var errArrayRefused = errors.New("an array of so many requests is refused")

// ask sends questions to a node, several in one HTTP request, and returns the answers in the order
// of the questions. Transactions are never sent in an array, because nodes accept a part of it. An
// error means that no answer counts.
func (c *Client) ask(ctx context.Context, op string, e *endpoint, reqs []request) ([]answer, error) {
	out := make([]answer, 0, len(reqs))
	for len(reqs) > 0 {
		n := min(len(reqs), e.arrayLimit.length(time.Now()))
		part, err := c.askArray(ctx, op, e, reqs[:n])
		if errors.Is(err, errArrayRefused) && n > 1 {
			e.arrayLimit.noteRefused(n, time.Now())
			continue
		}
		if err != nil {
			return nil, err
		}
		out, reqs = append(out, part...), reqs[n:]
	}
	return out, nil
}

func (c *Client) askArray(ctx context.Context, op string, e *endpoint, reqs []request) ([]answer, error) {
	var body bytes.Buffer
	for i, r := range reqs {
		body.WriteString(map[bool]string{true: "[", false: ","}[i == 0])
		if err := writeRequest(&body, i+1, r); err != nil {
			return nil, &dlt.Error{Op: op, Kind: dlt.ErrMisconfigured, Err: err}
		}
	}
	body.WriteByte(']')
	text := body.Bytes()
	if len(reqs) == 1 { // a single request needs no array
		text = text[1 : len(text)-1]
	}
	resp, cancel, err := c.post(ctx, op, e, bytes.NewReader(text), len(text), nil) //nolint:bodyclose // drain closes it
	if err != nil {
		return nil, err
	}
	defer cancel()
	defer wire.Drain(resp.Body, cancel)
	if resp.StatusCode != http.StatusOK {
		return nil, c.questionError(op, resp, cancel, len(reqs))
	}
	raw, err := io.ReadAll(&wire.BoundedReader{R: resp.Body, Left: c.options.MaxResponse})
	if errors.Is(err, wire.ErrTooLarge) && len(reqs) > 1 {
		return nil, errArrayRefused // so that one large answer does not hide the others
	}
	if err != nil {
		return nil, &dlt.Error{Op: op, StatusCode: resp.StatusCode, Kind: dlt.ErrDoubt, Err: c.shownError(err)}
	}
	out, err := decodeAnswers(raw, len(reqs))
	switch {
	case errors.Is(err, errArrayRefused):
		return nil, err
	case errors.Is(err, dlt.ErrBusy):
		return nil, &dlt.Error{Op: op, Kind: dlt.ErrBusy, RetryAfter: wire.RetryAfter(resp.Header, time.Now()), Err: c.shownError(err)}
	case err != nil:
		return nil, &dlt.Error{Op: op, StatusCode: resp.StatusCode, Kind: dlt.ErrDoubt, Err: c.shownError(err)}
	}
	return out, nil
}

func writeRequest(b *bytes.Buffer, id int, r request) error {
	params := r.params
	if params == nil {
		params = []any{}
	}
	text, err := json.Marshal(struct {
		Version string `json:"jsonrpc"`
		ID      int    `json:"id"`
		Method  string `json:"method"`
		Params  []any  `json:"params"`
	}{"2.0", id, r.method, params})
	b.Write(text)
	return err
}

type answerDoc struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Err    *rpcError       `json:"error"`
}

// decodeAnswers matches answers by id, in any order. A missing answer stays zero, and an answer to
// no request is dropped. A single error for the whole array refuses the array.
func decodeAnswers(raw []byte, n int) ([]answer, error) {
	raw = bytes.TrimSpace(raw)
	var all []answerDoc
	if len(raw) > 0 && raw[0] == '{' {
		var one answerDoc
		if err := json.Unmarshal(raw, &one); err != nil {
			return nil, err
		}
		if n > 1 && one.Err != nil {
			return nil, arrayError(one.Err)
		}
		all = append(all, one)
	} else if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	if n > 1 && len(all) == 1 && all[0].Err != nil {
		return nil, arrayError(all[0].Err)
	}
	out := make([]answer, n)
	for _, a := range all {
		id, err := strconv.Atoi(strings.Trim(string(a.ID), `"`))
		if err != nil || id < 1 || id > n {
			if n == 1 && len(all) == 1 && a.Err != nil { // an error from before the node has read the id
				return []answer{{err: a.Err}}, nil
			}
			continue
		}
		if a.Err == nil && len(a.Result) == 0 {
			return nil, errors.New("an answer with neither result nor error")
		}
		out[id-1] = answer{result: a.Result, err: a.Err}
	}
	return out, nil
}

// arrayError returns the error of a whole array that got one error. A provider that is asked too
// often refuses an array of any length, and shorter arrays would be more requests. "Limit
// exceeded" alone may be about the length.
func arrayError(err *rpcError) error {
	kind := errArrayRefused
	if saysBusy(err.Message) && !strings.Contains(strings.ToLower(err.Message), "batch") {
		kind = dlt.ErrBusy
	}
	return fmt.Errorf("%w: %s", kind, err.Message)
}

// questionError returns the error of a question whose HTTP response has another status than 200.
func (c *Client) questionError(op string, resp *http.Response, cancel context.CancelFunc, n int) error {
	b, _ := wire.ReadShortBody(resp.Body, cancel)
	message, is := readError(b)
	err := &dlt.Error{Op: op, StatusCode: resp.StatusCode, Message: c.shownText(message), Kind: dlt.ErrDoubt}
	switch s := resp.StatusCode; {
	case s == http.StatusRequestEntityTooLarge && n > 1:
		return errArrayRefused
	case s == http.StatusTooManyRequests:
		err.Kind, err.RetryAfter = dlt.ErrBusy, wire.RetryAfter(resp.Header, time.Now())
	case n > 1 && is != nil && mayBeAboutArray(s, is):
		return errArrayRefused
	case wire.Refuses(s):
		err.Kind = dlt.ErrMisconfigured
	}
	return err
}

// mayBeAboutArray reports whether a JSON-RPC error for a whole array, under another status than
// 200, may be about the array's length. Providers use many statuses and codes for that; one uses
// 500 with code 31.
func mayBeAboutArray(status int, err *rpcError) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusProxyAuthRequired:
		return false
	}
	return classify(err) != classMisconfigured && errors.Is(arrayError(err), errArrayRefused)
}

// readError returns the JSON-RPC error in a response and its message. If the response has none,
// such as a proxy's, message is the text and err is nil.
func readError(b []byte) (message string, err *rpcError) {
	var one answerDoc
	if json.Unmarshal(b, &one) == nil && one.Err != nil {
		return one.Err.Message, one.Err
	}
	return string(b), nil
}

// post sends one request. A response of any status is no error; the caller closes its body and
// calls cancel. An error is a [*dlt.Error] of a certain kind, or doubt. old may be nil; post sets
// it, before the body is read, to whether the connection has served an earlier request.
func (c *Client) post(ctx context.Context, op string, e *endpoint, body io.Reader, size int, old *atomic.Bool) (*http.Response, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, &dlt.Error{Op: op, Kind: dlt.ErrUnavailable, Endpoint: e.shownAddress, Err: err}
	}
	ctx, cancel := context.WithCancel(ctx)
	traced, sent := wire.TraceRequest(ctx, c.ownTransport)
	traced = httptrace.WithClientTrace(traced, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			e.identity.forget() // another process may listen at this address now
		}
		if old != nil {
			old.Store(info.Reused)
		}
	}})
	req, err := http.NewRequestWithContext(traced, http.MethodPost, e.url, nil)
	if err != nil {
		cancel()
		return nil, nil, &dlt.Error{Op: op, Kind: dlt.ErrMisconfigured, Endpoint: e.shownAddress, Err: c.shownError(err)}
	}
	maps.Copy(req.Header, c.options.Header)
	wire.SendTraceParent(ctx, req.Header)
	req.Header["Content-Type"] = []string{"application/json"}
	wire.AcceptEncoding(req.Header)
	// The request has no GetBody, so that net/http cannot send it again.
	req.Body, req.ContentLength = io.NopCloser(body), int64(size)
	resp, err := c.http.Do(req)
	if err != nil {
		cancel()
		e.identity.forget()
		return nil, nil, &dlt.Error{Op: op, Kind: wire.KindOf(err, sent()), Endpoint: e.shownAddress, Err: c.shownError(err)}
	}
	wire.Decode(resp)
	return resp, cancel, nil
}

// shownError returns the text of an error, shortened and without possible secrets.
func (c *Client) shownError(err error) error { return redact.ShownError(err, c.shownText) }
