package splinter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
)

const opState = "state"

// State reads the committed state of a service, at the node that gets its batches. It does not
// show changes that are executed and not committed. Methods may be called concurrently. Errors
// are [*dlt.Error]s.
type State struct {
	client   *Client
	location location
}

// State returns a reader of the service's state. The error is a [*batch.InputError].
func (c *Client) State(service batch.ServiceID) (State, error) {
	p, err := c.locate(service)
	return State{client: c, location: p}, err
}

// Get returns the value at an address of 70 hex digits, and false if there is none.
func (s State) Get(ctx context.Context, address string) (value []byte, found bool, err error) {
	if !isAddress(address) || len(address) != 70 {
		return nil, false, &dlt.Error{Op: opState, Kind: dlt.ErrMisconfigured, Err: &batch.InputError{
			Field: "address", Value: batch.Excerpt(address, 80), Want: "70 hex digits",
		}}
	}
	var numbers []int
	status, err := s.client.get(ctx, s.location, s.location.rootURL.JoinPath("state", address), &numbers, "Address not set")
	if err != nil || status == http.StatusNotFound {
		return nil, false, err
	}
	value, err = bytesFromNumbers(numbers)
	return value, err == nil, err
}

// Entry is the value at an address.
type Entry struct {
	Address string
	Value   []byte
}

// List returns the entries at the addresses that begin with a prefix. The prefix must not be
// empty: the node reads all entries before it answers.
func (s State) List(ctx context.Context, prefix string) ([]Entry, error) {
	if prefix == "" || !isAddress(prefix) {
		return nil, &dlt.Error{Op: opState, Kind: dlt.ErrMisconfigured, Err: &batch.InputError{
			Field: "prefix", Value: batch.Excerpt(prefix, 80), Want: "1 to 70 hex digits",
		}}
	}
	target := s.location.rootURL.JoinPath("state")
	target.RawQuery = "prefix=" + prefix
	var list []struct {
		Address string `json:"address"`
		Value   []int  `json:"value"`
	}
	if _, err := s.client.get(ctx, s.location, target, &list, ""); err != nil {
		return nil, err
	}
	out := make([]Entry, 0, len(list))
	for _, e := range list {
		value, err := bytesFromNumbers(e.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, Entry{Address: e.Address, Value: value})
	}
	return out, nil
}

// Root returns the hash of the whole state. Services of a circuit whose roots stay different
// will never commit again.
func (s State) Root(ctx context.Context) (string, error) {
	var root string
	if _, err := s.client.get(ctx, s.location, s.location.rootURL.JoinPath("state_root"), &root, ""); err != nil {
		return "", err
	}
	if root == "" {
		return "", &dlt.Error{Op: opState, StatusCode: http.StatusOK, Message: "an empty root"}
	}
	return root, nil
}

func isAddress(s string) bool {
	return len(s) <= 70 && strings.Trim(s, "0123456789abcdef") == ""
}

// bytesFromNumbers decodes bytes that a node writes as an array of numbers.
func bytesFromNumbers(numbers []int) ([]byte, error) {
	out := make([]byte, len(numbers))
	for i, n := range numbers {
		if n < 0 || n > 255 {
			return nil, &dlt.Error{Op: opState, StatusCode: http.StatusOK, Message: fmt.Sprintf("%d is no byte", n)}
		}
		out[i] = byte(n)
	}
	return out, nil
}

// get reads a JSON document. A 404 with the message none is no error; with any other message the
// service may still be starting.
func (c *Client) get(ctx context.Context, p location, target *url.URL, into any, none string) (status int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return 0, &dlt.Error{Op: opState, Kind: dlt.ErrMisconfigured, Err: c.redactError(err)}
	}
	resp, err := c.exchange(req, opState, p) //nolint:bodyclose // drain closes it
	if err != nil {
		return 0, err
	}
	defer wire.Drain(resp.Body, cancel)
	if resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(&wire.BoundedReader{R: resp.Body, Left: c.options.MaxResponse}).Decode(into); err != nil {
			return resp.StatusCode, &dlt.Error{Op: opState, StatusCode: resp.StatusCode, Err: c.redactError(err)}
		}
		return resp.StatusCode, nil
	}
	e := readEnvelope(resp.Header, resp.Body, cancel)
	if resp.StatusCode == http.StatusNotFound && none != "" && e.message == none {
		return resp.StatusCode, nil
	}
	return resp.StatusCode, c.refusalError(opState, resp.StatusCode, e, classifyStatuses(resp.StatusCode, resp.Header, dlt.ErrDoubt, time.Now()))
}
