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

// reading answers a query for the state, which waits for the locks of the service.
func (v *node) reading(w http.ResponseWriter, r *http.Request, s *service, f func(state) answer) {
	done, ok := v.work(r)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	if ok = v.unlocked(s); ok {
		values := s.state
		v.mu.Unlock()
		v.send(w, r, f(values), Fault{})
	}
	done()
	if !ok {
		panic(http.ErrAbortHandler)
	}
}

// stateAt serves GET state/{address}: the bytes at that address.
func (v *node) stateAt(w http.ResponseWriter, r *http.Request, s *service) {
	v.reading(w, r, s, func(values state) answer {
		if _, err := hex.DecodeString(r.PathValue("address")); err != nil {
			return serverError()
		}
		for name, n := range values {
			if Address(name) == r.PathValue("address") {
				return document(http.StatusOK, numbers(value(n)))
			}
		}
		return refusal(http.StatusNotFound, "Address not set")
	})
}

// stateEntries serves GET state, with an optional prefix of the addresses.
func (v *node) stateEntries(w http.ResponseWriter, r *http.Request, s *service) {
	prefix := parseQuery(r.URL.RawQuery)["prefix"]
	v.reading(w, r, s, func(values state) answer {
		out := []any{}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if a := Address(name); strings.HasPrefix(a, prefix) {
				out = append(out, map[string]any{"address": a, "value": numbers(value(values[name]))})
			}
		}
		return document(http.StatusOK, out)
	})
}

// stateRoot serves GET state_root: the hash that two services compare before they commit.
func (v *node) stateRoot(w http.ResponseWriter, r *http.Request, s *service) {
	v.reading(w, r, s, func(values state) answer {
		sum := sha256.New()
		for _, name := range slices.Sorted(maps.Keys(values)) {
			_, _ = fmt.Fprintln(sum, name, values[name])
		}
		return document(http.StatusOK, hex.EncodeToString(sum.Sum(nil)))
	})
}
