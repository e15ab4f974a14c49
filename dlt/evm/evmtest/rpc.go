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

// rpcError is one JSON-RPC error. Refusals of transactions have their words by personality.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// answer is an HTTP answer.
type answer struct {
	status      int
	contentType string
	body        []byte
}

const jsonType = "application/json"

func jsonAnswer(v any) answer {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps, slices, strings and numbers
	}
	return answer{http.StatusOK, jsonType, body}
}

func result(id json.RawMessage, v any) map[string]any {
	return map[string]any{"jsonrpc": "2.0", "id": id, "result": v}
}

// providerPrefix stands before the text of each error of a Provider.
const providerPrefix = "proxy-nodefleet.error: "

// failed returns the answer of an error, in the words of the node.
func (n *Node) failed(id json.RawMessage, e *rpcError) map[string]any {
	x := *e
	if n.r.behind {
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
	if a, bad := n.envelope(r); bad {
		n.write(w, a)
		return
	}
	list, isArray, bad := n.parse(body)
	if bad != nil {
		n.write(w, *bad)
		return
	}
	var life uint64
	var f Fault
	n.locked(func(time.Time) { life, f = n.lives, n.fault(list) })
	if !n.pause(r.Context(), f.Delay) {
		simnode.Reset(w)
		return
	}
	a, alive := n.serve(life, list, isArray, f)
	if !alive {
		simnode.Reset(w)
		return
	}
	n.finish(w, r, list[0].ID, a, f)
}

// envelope answers requests that are no JSON-RPC over HTTP.
func (n *Node) envelope(r *http.Request) (answer, bool) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	good := err == nil && kind == jsonType
	switch {
	case r.Method != http.MethodPost && n.r.lax:
		return answer{http.StatusBadRequest, "text/plain; charset=utf-8", []byte("Connection header did not include 'upgrade'")}, true
	case r.Method != http.MethodPost:
		return answer{http.StatusMethodNotAllowed, "text/plain; charset=utf-8", []byte("method not allowed\n")}, true
	case good:
		return answer{}, false
	case n.r.lax:
		return jsonAnswer(n.failed(null, &rpcError{Code: -32600, Message: "Invalid request"})), true
	}
	return answer{http.StatusUnsupportedMediaType, "text/plain; charset=utf-8", []byte("invalid content type, only application/json is supported\n")}, true
}

var null = json.RawMessage("null")

// parse reads a request, or an array of them.
func (n *Node) parse(body []byte) (list []request, isArray bool, bad *answer) {
	fail := func(code int, text string) ([]request, bool, *answer) {
		if n.r.lax {
			code, text = -32600, "Invalid request"
		}
		a := jsonAnswer(n.failed(null, &rpcError{Code: code, Message: text}))
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
			if n.r.lax || !isArray {
				return fail(-32600, "invalid request")
			}
			r = request{ID: null}
		}
		list = append(list, r)
	}
	most := 1000
	if n.o.Personality == Provider {
		most = 100
	}
	if n.o.Personality != Anvil && len(list) > most {
		a := jsonAnswer([]any{n.failed(list[0].ID, &rpcError{Code: -32600, Message: "batch too large"})})
		return nil, false, &a
	}
	return list, isArray, nil
}

// fault counts a request and draws its fault. The caller holds the lock.
func (n *Node) fault(list []request) Fault {
	p := Point{Method: list[0].Method, Requests: len(list)}
	var params []json.RawMessage
	if json.Unmarshal(list[0].Params, &params) == nil && len(params) > 0 {
		p.Param = string(params[0])
		_ = json.Unmarshal(params[0], &p.Param) // a value that is no string stays as it came
	}
	if raw, ok := bytesOf(p.Param); p.Method == sendMethod && ok {
		p.Param = evmtx.Keccak(raw).String()
		if tx, err := evmtx.Decode(raw); err == nil && tx.Sidecar != nil {
			p.Param = tx.Hash().String()
		}
	}
	key := p.Method + "|" + p.Param
	n.tries[key]++
	p.Try = n.tries[key]
	return n.o.Faults.request(p)
}

// serve answers the requests, and reports whether the node was not restarted meanwhile.
func (n *Node) serve(life uint64, list []request, isArray bool, f Fault) (a answer, alive bool) {
	n.locked(func(now time.Time) {
		if alive = n.lives == life && !n.down; !alive {
			return
		}
		lost := f.Answer != AnswerProperly && f.Answer != AnswerTruncated
		v := n.view(f)
		var out []any
		for _, r := range list {
			if lost && (r.Method != sendMethod || f.Taken != TakenFirst) {
				n.lose(now, r, f)
				continue
			}
			if x := n.one(now, v, r, f); r.ID != nil {
				out = append(out, x)
			}
		}
		if n.r.behind {
			slices.Reverse(out)
		}
		switch {
		case len(out) == 0 && n.r.lax:
			a = answer{status: http.StatusNoContent}
		case len(out) == 0:
			a = answer{http.StatusOK, jsonType, nil}
		case isArray:
			a = jsonAnswer(out)
		default:
			a = jsonAnswer(out[0])
		}
	})
	return a, alive
}

// lose schedules the later half of a fault.
func (n *Node) lose(now time.Time, r request, f Fault) {
	if r.Method != sendMethod || f.Taken != TakenLate {
		return
	}
	c := n.call(now, nil, r)
	if raw, e := c.bytes(0); e == nil {
		n.arriveLater(now.Add(f.After), raw)
	}
}

// one answers a request.
func (n *Node) one(now time.Time, v *view, r request, f Fault) any {
	if r.Method == "" {
		return n.failed(null, &rpcError{Code: -32600, Message: "invalid request"})
	}
	c := n.call(now, v, r)
	c.dropTx = f.Drop
	m, ok := methods[r.Method]
	if !ok || !m.has(n) {
		text := fmt.Sprintf("the method %s does not exist/is not available", r.Method)
		if n.r.lax {
			text = "Method not found"
		}
		return n.failed(r.ID, &rpcError{Code: -32601, Message: text})
	}
	x, e := m.do(c)
	if e != nil {
		return n.failed(r.ID, e)
	}
	return result(r.ID, x)
}

// finish writes an answer, changed by a fault.
func (n *Node) finish(w http.ResponseWriter, r *http.Request, id json.RawMessage, a answer, f Fault) {
	if f.RetryAfter > 0 && (f.Answer == AnswerPage || f.Answer == AnswerError) {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter/time.Second)))
	}
	switch f.Answer {
	case AnswerNever:
		n.hang(r.Context())
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
		a = answer{f.Status, "text/html", []byte("<html>\r\n<head><title>" + strconv.Itoa(f.Status) + " " + text + "</title></head>\r\n<body>\r\n<center><h1>" +
			strconv.Itoa(f.Status) + " " + text + "</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n")}
	case AnswerError:
		a = jsonAnswer(n.failed(id, &rpcError{Code: f.Code, Message: f.Text}))
		if f.Status != 0 {
			a.status = f.Status
		}
	}
	n.write(w, a)
}

func (n *Node) write(w http.ResponseWriter, a answer) {
	if a.contentType != "" {
		w.Header().Set("Content-Type", a.contentType)
	}
	w.WriteHeader(a.status)
	// The client may have left.
	_, _ = w.Write(a.body)
}

// pause waits, and reports whether the client is still there.
func (n *Node) pause(ctx context.Context, d time.Duration) bool {
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

// hang waits until the client leaves or the node is closed.
func (n *Node) hang(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-n.closed:
	}
}

// bytesOf reads 0x and hex digits.
func bytesOf(text string) ([]byte, bool) {
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok {
		return nil, false
	}
	out, err := hex.DecodeString(digits)
	return out, err == nil
}
