package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// client sends requests to the fake ledger. All contenders use it, so that they differ only in
// their work between the requests.
type client struct {
	baseURL string
	http    *http.Client
}

func newClient(base string, conns int) *client {
	return &client{base, &http.Client{Transport: &http.Transport{MaxIdleConns: conns, MaxIdleConnsPerHost: conns, DisableCompression: true}}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// post sends one batch.
func (c *client) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.baseURL+"/batches", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("POST /batches: %s", resp.Status)
	}
	return nil
}

// statuses asks for the statuses of batches.
func (c *client) statuses(ctx context.Context, ids []string) ([]statusAnswer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.baseURL+"/statuses?ids="+strings.Join(ids, ","), http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET /statuses: %s", resp.Status)
	}
	out := make([]statusAnswer, 0, len(ids))
	return out, json.NewDecoder(resp.Body).Decode(&out)
}

// resetLedger makes the fake ledger forget everything, and returns its tally.
func (c *client) resetLedger(ctx context.Context) (t ledgerTally, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.baseURL+"/reset", http.NoBody)
	if err != nil {
		return t, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return t, err
	}
	defer resp.Body.Close()
	return t, json.NewDecoder(resp.Body).Decode(&t)
}
