package evmtest

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

const sendMethod = "eth_sendRawTransaction"

// request is one JSON-RPC request.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// rpcError is a JSON-RPC error. Its text for a refused transaction depends on the personality.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// httpAnswer is an HTTP answer.
type httpAnswer struct {
	status      int
	contentType string
	body        []byte
}

const jsonType = "application/json"

func jsonAnswer(v any) httpAnswer {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot fail for maps, slices, strings and numbers
	}
	return httpAnswer{http.StatusOK, jsonType, body}
}

func resultObject(id json.RawMessage, v any) map[string]any {
	return map[string]any{"jsonrpc": "2.0", "id": id, "result": v}
}

// providerPrefix is put before the text of each error of a Provider.
const providerPrefix = "proxy-nodefleet.error: "

// errorObject returns the answer with an error, in the form of the personality.
func (n *Node) errorObject(id json.RawMessage, e *rpcError) map[string]any {
	x := *e
	if n.rules.behindBalancer {
		x.Code, x.Message = -32603, providerPrefix+x.Message
	}
	return map[string]any{"jsonrpc": "2.0", "id": id, "error": x}
}

// ServeHTTP implements [http.Handler].
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 5<<20))
	if err != nil {
		http.Error(w, "content length too large", http.StatusRequestEntityTooLarge)
		return
	}
	if a, bad := n.answerNonRPC(r); bad {
		n.writeAnswer(w, a)
		return
	}
	list, isArray, bad := n.parseRequests(body)
	if bad != nil {
		n.writeAnswer(w, *bad)
		return
	}
	var life uint64
	var f Fault
	n.withLock(func(time.Time) { life, f = n.timesEnded, n.drawFault(list) })
	if !n.waitDelay(r.Context(), f.Delay) {
		simnode.Reset(w)
		return
	}
	a, alive := n.answerRequests(life, list, isArray, f)
	if !alive {
		simnode.Reset(w)
		return
	}
	n.writeWithFault(w, r, list[0].ID, a, f)
}

// answerNonRPC answers a request that is not JSON-RPC over HTTP. It returns false for any other
// request.
func (n *Node) answerNonRPC(r *http.Request) (httpAnswer, bool) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	good := err == nil && kind == jsonType
	switch {
	case r.Method != http.MethodPost && n.rules.isLax:
		return httpAnswer{http.StatusBadRequest, "text/plain; charset=utf-8", []byte("Connection header did not include 'upgrade'")}, true
	case r.Method != http.MethodPost:
		return httpAnswer{http.StatusMethodNotAllowed, "text/plain; charset=utf-8", []byte("method not allowed\n")}, true
	case good:
		return httpAnswer{}, false
	case n.rules.isLax:
		return jsonAnswer(n.errorObject(nullID, &rpcError{Code: -32600, Message: "Invalid request"})), true
	}
	return httpAnswer{http.StatusUnsupportedMediaType, "text/plain; charset=utf-8", []byte("invalid content type, only application/json is supported\n")}, true
}

var nullID = json.RawMessage("null")

// parseRequests reads a request, or an array of them.
func (n *Node) parseRequests(body []byte) (list []request, isArray bool, bad *httpAnswer) {
	fail := func(code int, text string) ([]request, bool, *httpAnswer) {
		if n.rules.isLax {
			code, text = -32600, "Invalid request"
		}
		a := jsonAnswer(n.errorObject(nullID, &rpcError{Code: code, Message: text}))
		return nil, false, &a
	}
	body = bytes.TrimSpace(body)
	if !json.Valid(body) {
		return fail(-32700, "parse error")
	}
	parts := []json.RawMessage{body}
	if isArray = body[0] == '['; isArray {
		if err := json.Unmarshal(body, &parts); err != nil || len(parts) == 0 {
			return fail(-32600, "empty batch")
		}
	}
	for _, part := range parts {
		var r request
		if err := json.Unmarshal(part, &r); err != nil || r.Method == "" {
			if n.rules.isLax || !isArray {
				return fail(-32600, "invalid request")
			}
			r = request{ID: nullID}
		}
		list = append(list, r)
	}
	most := 1000
	if n.options.Personality == Provider {
		most = 100
	}
	if n.options.Personality != Anvil && len(list) > most {
		a := jsonAnswer([]any{n.errorObject(list[0].ID, &rpcError{Code: -32600, Message: "batch too large"})})
		return nil, false, &a
	}
	return list, isArray, nil
}

// drawFault counts a request and draws its fault. The caller holds the lock.
func (n *Node) drawFault(list []request) Fault {
	p := RequestPoint{Method: list[0].Method, Requests: len(list)}
	var params []json.RawMessage
	if json.Unmarshal(list[0].Params, &params) == nil && len(params) > 0 {
		p.Param = string(params[0])
		_ = json.Unmarshal(params[0], &p.Param) // if the parameter is no string, Param keeps its text
	}
	if raw, ok := parseHexBytes(p.Param); p.Method == sendMethod && ok {
		p.Param = evmtx.Keccak(raw).String()
		if tx, err := evmtx.Decode(raw); err == nil && tx.Sidecar != nil {
			p.Param = tx.Hash().String()
		}
	}
	key := p.Method + "|" + p.Param
	n.requestCounts[key]++
	p.Try = n.requestCounts[key]
	return n.options.Faults.drawForRequest(p)
}

// answerRequests answers the requests. alive is false if the node was killed or stopped in the
// meantime.
func (n *Node) answerRequests(life uint64, list []request, isArray bool, f Fault) (a httpAnswer, alive bool) {
	n.withLock(func(now time.Time) {
		if alive = n.timesEnded == life && !n.isDown; !alive {
			return
		}
		lost := f.Answer != AnswerProperly && f.Answer != AnswerTruncated
		v := n.pickView(f)
		var out []any
		for _, r := range list {
			if lost && (r.Method != sendMethod || f.Acceptance != AcceptedFirst) {
				n.scheduleLostSend(now, r, f)
				continue
			}
			if x := n.answerRequest(now, v, r, f); r.ID != nil {
				out = append(out, x)
			}
		}
		if n.rules.behindBalancer {
			slices.Reverse(out)
		}
		switch {
		case len(out) == 0 && n.rules.isLax:
			a = httpAnswer{status: http.StatusNoContent}
		case len(out) == 0:
			a = httpAnswer{http.StatusOK, jsonType, nil}
		case isArray:
			a = jsonAnswer(out)
		default:
			a = jsonAnswer(out[0])
		}
	})
	return a, alive
}

// scheduleLostSend schedules the late arrival of a transaction, if the fault has one.
func (n *Node) scheduleLostSend(now time.Time, r request, f Fault) {
	if r.Method != sendMethod || f.Acceptance != AcceptedLate {
		return
	}
	c := n.newCall(now, nil, r)
	if raw, e := c.bytesParam(0); e == nil {
		n.scheduleArrival(now.Add(f.AcceptAfter), raw)
	}
}

// answerRequest answers one request.
func (n *Node) answerRequest(now time.Time, v *chainView, r request, f Fault) any {
	if r.Method == "" {
		return n.errorObject(nullID, &rpcError{Code: -32600, Message: "invalid request"})
	}
	c := n.newCall(now, v, r)
	c.dropsTx = f.Drop
	m, ok := methods[r.Method]
	if !ok || !m.isOn(n) {
		text := fmt.Sprintf("the method %s does not exist/is not available", r.Method)
		if n.rules.isLax {
			text = "Method not found"
		}
		return n.errorObject(r.ID, &rpcError{Code: -32601, Message: text})
	}
	x, e := m.handle(c)
	if e != nil {
		return n.errorObject(r.ID, e)
	}
	return resultObject(r.ID, x)
}

// writeWithFault writes an answer after the fault has changed it.
func (n *Node) writeWithFault(w http.ResponseWriter, r *http.Request, id json.RawMessage, a httpAnswer, f Fault) {
	if f.RetryAfter > 0 && (f.Answer == AnswerPage || f.Answer == AnswerError) {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter/time.Second)))
	}
	switch f.Answer {
	case AnswerNever:
		n.waitUntilClientLeaves(r.Context())
		simnode.Reset(w)
		return
	case AnswerReset:
		simnode.Reset(w)
		return
	case AnswerTruncated:
		simnode.Truncate(w, a.status, a.contentType, a.body, len(a.body))
		return
	case AnswerPage:
		text := http.StatusText(f.Status)
		a = httpAnswer{f.Status, "text/html", []byte("<html>\r\n<head><title>" + strconv.Itoa(f.Status) + " " + text + "</title></head>\r\n<body>\r\n<center><h1>" +
			strconv.Itoa(f.Status) + " " + text + "</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n")}
	case AnswerError:
		a = jsonAnswer(n.errorObject(id, &rpcError{Code: f.Code, Message: f.Text}))
		if f.Status != 0 {
			a.status = f.Status
		}
	}
	n.writeAnswer(w, a)
}

func (n *Node) writeAnswer(w http.ResponseWriter, a httpAnswer) {
	if a.contentType != "" {
		w.Header().Set("Content-Type", a.contentType)
	}
	w.WriteHeader(a.status)
	// The client may have ended the connection.
	_, _ = w.Write(a.body)
}

// waitDelay waits for d, and reports whether the client is still connected.
func (n *Node) waitDelay(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-n.closed:
	}
	return false
}

// waitUntilClientLeaves waits until the client ends the connection or the node is closed.
func (n *Node) waitUntilClientLeaves(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-n.closed:
	}
}

// parseHexBytes reads 0x and hex digits.
func parseHexBytes(text string) ([]byte, bool) {
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok {
		return nil, false
	}
	out, err := hex.DecodeString(digits)
	return out, err == nil
}
