package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

const paymentCount = 20

// prove makes payments, with two requests for each, and counts what the node has executed.
func prove(ctx context.Context, out io.Writer, url string, node *sawtoothtest.Node) error {
	begin := time.Now()
	for i := range 2 * paymentCount {
		status, body, err := doRequest(ctx, http.MethodPost, fmt.Sprintf("%s/payments/p-%d", url, i%paymentCount), fmt.Sprintf(`{"to": "ann", "cents": %d}`, 100+i%paymentCount))
		if err != nil {
			return err
		}
		if status != http.StatusAccepted {
			return fmt.Errorf("POST: %d %s", status, body)
		}
	}
	fmt.Fprintf(out, "%d payments, each sent twice by its client: all accepted after %s\n", paymentCount, time.Since(begin).Round(time.Millisecond))
	for i := range paymentCount {
		for {
			_, body, err := doRequest(ctx, http.MethodGet, fmt.Sprintf("%s/payments/p-%d", url, i), "")
			if err != nil {
				return err
			}
			if body == "committed" {
				break
			}
			if body != "waiting" {
				return fmt.Errorf("payment p-%d: %s", i, body)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	fmt.Fprintf(out, "all committed after %s\n", time.Since(begin).Round(time.Millisecond))
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/console/"} {
		status, _, err := doRequest(ctx, http.MethodGet, url+path, "")
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "GET %-9s %d %s\n", path, status, http.StatusText(status))
	}
	if node == nil {
		return nil
	}
	if executed := len(node.Chain()); executed != paymentCount {
		return fmt.Errorf("THE PROOF FAILS: %d payments, and the node executed %d batches", paymentCount, executed)
	}
	fmt.Fprintf(out, "PROVED: the node's chain has %d batches, one for each payment\n", paymentCount)
	return nil
}

func doRequest(ctx context.Context, method, url, body string) (status int, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, strings.TrimSpace(string(text)), err
}
