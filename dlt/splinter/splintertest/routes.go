package splintertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

func newNode(n *Network) *node {
	v := &node{
		Network: n, front: simnode.Front{CutHijacked: true}, mux: http.NewServeMux(),
		isUp: true, processEnd: make(chan struct{}), workers: newWorkers(), receipts: map[string]bool{},
	}
	v.mux.HandleFunc("POST /scabbard/{circuit}/{service}/batches", v.withChecks(OpSubmit, v.submit))
	v.mux.HandleFunc("GET /scabbard/{circuit}/{service}/batch_statuses", v.withChecks(OpStatuses, v.serveStatuses))
	v.mux.HandleFunc("GET /scabbard/{circuit}/{service}/ws/subscribe", v.withChecks(OpEvents, v.subscribe))
	v.mux.HandleFunc("GET /admin/circuits/{circuit}", v.serveCircuit)
	v.mux.HandleFunc("GET /scabbard/{circuit}/{service}/state", v.withChecks(OpState, v.serveStateEntries))
	v.mux.HandleFunc("GET /scabbard/{circuit}/{service}/state/{address}", v.withChecks(OpState, v.serveStateAt))
	v.mux.HandleFunc("GET /scabbard/{circuit}/{service}/state_root", v.withChecks(OpState, v.serveStateRoot))
	v.mux.HandleFunc("POST /biome/login", v.login)
	v.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		v.send(w, r, errorAnswer(http.StatusNotFound, "endpoint not found").asWithoutEndpoint(), Fault{})
	})
	return v
}

// maxURI is the longest request target that the Rust http crate accepts.
const maxURI = 65534

// ServeHTTP implements [http.Handler].
func (v *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(r.RequestURI) > maxURI || tooManyHeaders(r) { // the real parser answers without a handler and without headers
		w.Header().Set("Connection", "close")
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if r.Method == http.MethodHead || path.Clean(r.URL.Path) != r.URL.Path { // Go's mux would serve or redirect such a request
		v.send(w, r, errorAnswer(http.StatusNotFound, "endpoint not found").asWithoutEndpoint(), Fault{})
		return
	}
	v.mux.ServeHTTP(w, r)
}

// answer is an HTTP answer.
type answer struct {
	status        int
	contentType   string
	body          []byte
	lacksEndpoint bool // true if no endpoint saw the request
}

func (a answer) asWithoutEndpoint() answer { a.lacksEndpoint = true; return a }

func jsonAnswer(status int, v any) answer {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot fail
	}
	return answer{status: status, contentType: "application/json", body: b}
}

// errorAnswer returns an answer with an ErrorResponse.
func errorAnswer(status int, message string) answer {
	return jsonAnswer(status, map[string]string{"code": strconv.Itoa(status), "message": message})
}

func serverErrorAnswer() answer {
	return errorAnswer(http.StatusInternalServerError, "The server encountered an error")
}

// withChecks returns a handler that first checks authorization and protocol version, and finds the
// service.
func (v *node) withChecks(op Operation, h func(http.ResponseWriter, *http.Request, *service)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !v.isAuthorized(r.Header.Get("Authorization"), op) {
			v.send(w, r, errorAnswer(http.StatusUnauthorized, "Client is not authorized").asWithoutEndpoint(), Fault{})
			return
		}
		if a, bad := checkVersion(r.Header.Get("Splinterprotocolversion")); bad {
			v.send(w, r, a, Fault{})
			return
		}
		circuit, id := r.PathValue("circuit"), r.PathValue("service")
		s := v.findService(batch.ServiceID(circuit + "::" + id))
		if s == nil || s.node != v {
			v.send(w, r, jsonAnswer(http.StatusNotFound, map[string]string{
				"message": fmt.Sprintf("scabbard service %s on circuit %s not found", id, circuit),
			}), Fault{})
			return
		}
		h(w, r, s)
	}
}

func (v *node) isAuthorized(header string, op Operation) bool {
	v.mu.Lock()
	known := v.tokens[strings.TrimPrefix(header, "Bearer ")]
	v.mu.Unlock()
	if known {
		return true
	}
	if v.options.Authorize != nil {
		return v.options.Authorize(header, op)
	}
	return v.options.Users == nil
}

func checkVersion(header string) (answer, bool) {
	if header == "" || header == "1" {
		return answer{}, false
	}
	n, err := strconv.ParseUint(header, 10, 32)
	if err != nil {
		return jsonAnswer(http.StatusBadRequest, map[string]any{"message": "SplinterProtocolVersion must be a valid positive integer"}), true
	}
	message := "Client must support protocol version 1 or greater."
	if n > 1 {
		message = fmt.Sprintf("Client requires a newer protocol than can be provided: %d > 1", n)
	}
	return jsonAnswer(http.StatusBadRequest, map[string]any{
		"message": message, "requested_protocol": n, "splinter_protocol": 1, "libsplinter_version": "0.6.14",
	}), true
}

// login answers a login request as Biome does.
func (v *node) login(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Username string `json:"username"`
		Password string `json:"hashed_password"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		v.send(w, r, jsonAnswer(http.StatusBadRequest, map[string]string{"message": "Failed to parse payload"}), Fault{})
		return
	}
	if want, known := v.options.Users[in.Username]; !known || want != in.Password {
		v.send(w, r, jsonAnswer(http.StatusBadRequest, map[string]string{"message": "Invalid password"}), Fault{})
		return
	}
	v.mu.Lock()
	token := fmt.Sprintf("Biome:token.%s.%d", in.Username, len(v.tokens)+1)
	v.tokens[token] = true
	v.mu.Unlock()
	v.send(w, r, jsonAnswer(http.StatusOK, map[string]string{
		"message": "Successful login", "user_id": in.Username, "token": token, "refresh_token": "refresh." + token,
	}), Fault{})
}

// ExpireTokens invalidates every token that a login returned.
func (n *Network) ExpireTokens() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.tokens)
}

// send writes an answer after the fault has changed it.
func (v *node) send(w http.ResponseWriter, r *http.Request, a answer, f Fault) {
	switch f.Answer {
	case AnswerNever:
		v.hang(r.Context())
		simnode.Reset(w)
		return
	case AnswerReset:
		simnode.Reset(w)
		return
	case AnswerTruncated:
		simnode.Truncate(w, a.status, a.contentType, a.body, len(a.body))
		return
	case AnswerError:
		a = f.answer()
	}
	if len(a.body) > 0 {
		w.Header().Set("Content-Type", a.contentType)
	}
	if !a.lacksEndpoint {
		w.Header().Set("Access-Control-Allow-Credentials", "true")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client may have ended the connection
}

// answer returns the answer for AnswerError.
func (f *Fault) answer() answer {
	switch {
	case f.Body != "":
		return answer{status: f.Status, contentType: "application/json", body: []byte(f.Body)}
	case f.Status == http.StatusTooManyRequests: // the body is empty
		return answer{status: f.Status}
	case f.Status == http.StatusInternalServerError:
		return serverErrorAnswer()
	}
	return answer{status: f.Status, contentType: "text/html", body: []byte("<html>" + http.StatusText(f.Status) + "</html>")}
}

// hang waits until the client ends the connection or the network is closed.
func (v *node) hang(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-v.closed:
	}
}
