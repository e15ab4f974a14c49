package splintertest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// serveState answers a query about the state, which waits for the locks of the service.
func (v *node) serveState(w http.ResponseWriter, r *http.Request, s *service, f func(state) answer) {
	done, ok := v.waitForWorker(r)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	if ok = v.waitForLocks(s); ok {
		values := s.state
		v.mu.Unlock()
		v.send(w, r, f(values), Fault{})
	}
	done()
	if !ok {
		panic(http.ErrAbortHandler)
	}
}

// serveStateAt serves GET state/{address}: the bytes at that address.
func (v *node) serveStateAt(w http.ResponseWriter, r *http.Request, s *service) {
	v.serveState(w, r, s, func(values state) answer {
		if _, err := hex.DecodeString(r.PathValue("address")); err != nil {
			return serverErrorAnswer()
		}
		for name, n := range values {
			if Address(name) == r.PathValue("address") {
				return jsonAnswer(http.StatusOK, byteNumbers(encodeValue(n)))
			}
		}
		return errorAnswer(http.StatusNotFound, "Address not set")
	})
}

// serveStateEntries serves GET state, with an optional prefix of the addresses.
func (v *node) serveStateEntries(w http.ResponseWriter, r *http.Request, s *service) {
	prefix := parseQuery(r.URL.RawQuery)["prefix"]
	v.serveState(w, r, s, func(values state) answer {
		out := []any{}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if a := Address(name); strings.HasPrefix(a, prefix) {
				out = append(out, map[string]any{"address": a, "value": byteNumbers(encodeValue(values[name]))})
			}
		}
		return jsonAnswer(http.StatusOK, out)
	})
}

// serveStateRoot serves GET state_root: the hash that two services compare before they commit.
func (v *node) serveStateRoot(w http.ResponseWriter, r *http.Request, s *service) {
	v.serveState(w, r, s, func(values state) answer {
		sum := sha256.New()
		for _, name := range slices.Sorted(maps.Keys(values)) {
			_, _ = fmt.Fprintln(sum, name, values[name])
		}
		return jsonAnswer(http.StatusOK, hex.EncodeToString(sum.Sum(nil)))
	})
}
