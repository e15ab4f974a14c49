package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// Client is a dlt.Ledger for the notary. A client without the trait Resolves needs no more than
// this file.
type Client struct {
	dlt.Unimplemented // answers for the methods that the notary does not need

	baseURL string
	http    http.Client
}

// NewClient returns a client of the notary at a base URL.
func NewClient(base string) *Client {
	return &Client{baseURL: base, http: http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
		// Following a redirect would be a second POST that is counted nowhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Traits declares that the notary writes an id once, however often it is sent. If the notary does
// not know an entry a quarter of a second after the connection ended, the entry will not arrive
// any more.
func (c *Client) Traits(batch.ServiceID) dlt.Traits {
	const late = 250 * time.Millisecond
	return dlt.Traits{Name: "notary", ResendHarmlessFor: dlt.Forever, LateArrival: late, Grace: late, MaxIDsPerQuery: 20, Resolves: true}
}

// Submit sends the batch's text to the notary, with one POST.
func (c *Client) Submit(ctx context.Context, a batch.Attempt) error {
	query := url.Values{"lane": {string(a.Service)}, "id": {string(a.ID)}}
	// The payload is cloned, because net/http may still read it after the answer.
	resp, err := c.sendRequest(ctx, "submit", http.MethodPost, query, bytes.NewReader(bytes.Clone(a.Payload)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusAccepted {
		return nil
	}
	wait, _ := time.ParseDuration(resp.Header.Get("Retry-After") + "s") // 0 if the header is missing
	return &dlt.Error{Op: "submit", StatusCode: resp.StatusCode, RetryAfter: wait, Kind: map[int]error{
		http.StatusUnprocessableEntity: dlt.ErrRejected, http.StatusTooManyRequests: dlt.ErrBusy,
		http.StatusUnauthorized: dlt.ErrMisconfigured, http.StatusForbidden: dlt.ErrMisconfigured,
	}[resp.StatusCode]} // any other status is a doubt
}

func (c *Client) sendRequest(ctx context.Context, op, method string, query url.Values, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.baseURL+"/entries?"+query.Encode(), body)
	if err != nil {
		return nil, &dlt.Error{Op: op, Kind: dlt.ErrMisconfigured, Err: err}
	}
	req.GetBody = nil // so that net/http cannot send the request again
	resp, err := c.http.Do(req)
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" { // the connection was never made, so the request was certainly not sent
		return nil, &dlt.Error{Op: op, Kind: dlt.ErrUnavailable, Err: err}
	} else if err != nil {
		return nil, &dlt.Error{Op: op, Kind: dlt.ErrDoubt, Err: err}
	}
	return resp, nil
}

// BatchStatuses asks about at most 20 entries in one request; they may be of any lanes.
func (c *Client) BatchStatuses(ctx context.Context, _ batch.ServiceID, attempts []batch.Attempt) (out []batch.Status, err error) {
	for part := range slices.Chunk(attempts, 20) {
		statuses, askErr := c.askStates(ctx, part)
		out, err = append(out, statuses...), errors.Join(err, askErr)
	}
	return out, err
}

var stateWords = map[string]batch.Reported{
	"none": batch.ReportedUnknown, "waiting": batch.ReportedPending, "written": batch.ReportedCommitted, "void": batch.ReportedInvalid,
}

func (c *Client) askStates(ctx context.Context, attempts []batch.Attempt) (out []batch.Status, err error) {
	const op = "batch statuses"
	asked, query := map[string]bool{}, url.Values{}
	for _, a := range attempts {
		asked[string(a.ID)] = true
		query.Add("id", string(a.ID))
	}
	resp, err := c.sendRequest(ctx, op, http.MethodGet, query, http.NoBody)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var entries []entryState
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&entries); err != nil || resp.StatusCode != http.StatusOK {
		return nil, &dlt.Error{Op: op, StatusCode: resp.StatusCode, Err: err}
	}
	for _, e := range entries {
		if word, known := stateWords[e.State]; !known { // an unknown state is an error, never a status
			err = errors.Join(err, &dlt.Error{Op: op, Message: "unknown state " + batch.Excerpt(e.State, 40)})
		} else if asked[e.ID] {
			out = append(out, batch.Status{ID: batch.ID(e.ID), Reported: word, Message: batch.Excerpt(e.Reason, 200)})
		}
	}
	return out, err
}
