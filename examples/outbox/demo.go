package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// demoOrder is an order of the demonstration, with what is expected of its requests.
type demoOrder struct {
	order
	wantStatus   int  // expected status of one of its requests; the others get 200
	requestCount int  // number of requests, sent at the same time
	reusesKey    bool // true if another order with the same key follows
}

func demoOrders(n int) []demoOrder {
	out := make([]demoOrder, n)
	for i := range out {
		c := demoOrder{order: order{ID: newKey(), Customer: fmt.Sprintf("customer-%d", i%7), Item: "apple", Quantity: int64(1 + i%9)}, wantStatus: http.StatusCreated, requestCount: 1}
		switch i % 10 {
		case 3, 7: // more than the stock, so the transaction is rolled back
			c.Item, c.Quantity, c.wantStatus = "quince", 50, http.StatusConflict
		case 4, 8: // a client that repeats the request before it got the answer
			c.requestCount = 3
		case 9: // a client that uses a key twice
			c.reusesKey = true
		}
		out[i] = c
	}
	return out
}

// demonstrate sends orders, and compares the application's table, the store and the node.
func demonstrate(ctx context.Context, out io.Writer, s *shop, node *sawtoothtest.Node, url string, n int) error {
	begin := time.Now()
	orders := demoOrders(n)
	clients, sending := errgroup.WithContext(ctx)
	clients.SetLimit(8)
	for _, c := range orders {
		clients.Go(func() error { return c.send(sending, url) })
	}
	if err := clients.Wait(); err != nil {
		return err
	}
	requests, placed, refused, repeated, misused := 0, 0, 0, 0, 0
	for _, c := range orders {
		requests += c.requestCount
		repeated += c.requestCount - 1
		if c.reusesKey {
			requests++
			misused++
		}
		if c.isPlaced() {
			placed++
		} else {
			refused++
		}
	}
	fmt.Fprintf(out, "\n%d orders in %d requests from 8 clients, each answered as it should be:\n", n, requests)
	fmt.Fprintf(out, "  %5d  created\n", placed)
	fmt.Fprintf(out, "  %5d  sent again with the same Idempotency-Key: the order that is there\n", repeated)
	fmt.Fprintf(out, "  %5d  another order with a key that was used: refused\n", misused)
	fmt.Fprintf(out, "  %5d  out of stock: rolled back after the batch had been added\n", refused)
	if err := s.runner.Idle(ctx); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/orders/"+orders[0].ID, http.NoBody)
	if err != nil {
		return err
	}
	_, body, err := doRequest(req)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nGET /orders/%s\n%s\n", orders[0].ID, body)
	alone, err := s.oneByOne(ctx, out, node, url)
	if err != nil {
		return err
	}
	return s.compare(ctx, out, node, append(orders, alone...), time.Since(begin))
}

// ordersOneByOne is the number of orders that are sent one after the other.
const ordersOneByOne = 10

// oneByOne sends orders while nothing else is under way, and shows how long each took until the
// other process had sent it, and until its outcome was back.
func (s *shop) oneByOne(ctx context.Context, out io.Writer, node *sawtoothtest.Node, url string) ([]demoOrder, error) {
	orders := make([]demoOrder, ordersOneByOne)
	var posted, told []time.Duration
	for i := range orders {
		o := order{ID: newKey(), Customer: fmt.Sprintf("customer-%d", i%7), Item: "pear", Quantity: 1}
		orders[i] = demoOrder{order: o, wantStatus: http.StatusCreated, requestCount: 1}
		b, err := s.sign(o)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if err := orders[i].send(ctx, url); err != nil {
			return nil, err
		}
		if _, err := s.runner.Await(ctx, b.Key()); err != nil {
			return nil, err
		}
		told = append(told, time.Since(began))
		for _, e := range node.Journal() {
			if e.Kind == sawtoothtest.PostStart && slices.Contains(e.Batches, b.ID) {
				posted = append(posted, e.Time.Sub(began))
				break
			}
		}
	}
	fmt.Fprintf(out, "\n%d orders one by one, each from its request to this process:\n", ordersOneByOne)
	fmt.Fprintf(out, "  %s  until the other process sent its batch to the ledger\n", medianAndMax(posted))
	fmt.Fprintf(out, "  %s  until Await told of its commit (a block each 100 ms)\n", medianAndMax(told))
	return orders, nil
}

// medianAndMax returns the median and the maximum of durations, in words.
func medianAndMax(d []time.Duration) string {
	if len(d) == 0 {
		return "never"
	}
	slices.Sort(d)
	return fmt.Sprintf("%5d ms in the middle, %d ms at most", d[len(d)/2].Milliseconds(), d[len(d)-1].Milliseconds())
}

func (c demoOrder) isPlaced() bool { return c.wantStatus == http.StatusCreated }

// send sends the requests of an order, all at once, and checks the answers.
func (c demoOrder) send(ctx context.Context, url string) error {
	got, want := make([]int, c.requestCount), make([]int, c.requestCount)
	requests, posting := errgroup.WithContext(ctx)
	for i := range got {
		want[i] = http.StatusOK
		requests.Go(func() (err error) { got[i], err = postOrder(posting, url, c.order); return err })
	}
	if err := requests.Wait(); err != nil {
		return err
	}
	want[c.requestCount-1] = c.wantStatus // the status of the request that took effect first
	if slices.Sort(got); !slices.Equal(got, want) {
		return fmt.Errorf("order %s was answered %v, want %v", c.ID, got, want)
	}
	if !c.reusesKey {
		return nil
	}
	other := c.order
	other.Quantity++
	status, err := postOrder(ctx, url, other)
	if err == nil && status != http.StatusConflict {
		err = fmt.Errorf("another order with the key %s was answered %d, want %d", c.ID, status, http.StatusConflict)
	}
	return err
}

func postOrder(ctx context.Context, url string, o order) (status int, err error) {
	body, err := json.Marshal(o)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/orders", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Idempotency-Key", o.ID)
	status, _, err = doRequest(req)
	return status, err
}

func doRequest(req *http.Request) (status int, body string, err error) {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(bytes.TrimSpace(text)), err
}

// compare reads the application's table, the store and the node's journal.
func (s *shop) compare(ctx context.Context, out io.Writer, node *sawtoothtest.Node, orders []demoOrder, took time.Duration) error {
	rows, err := s.storedBatchIDs(ctx)
	if err != nil {
		return err
	}
	var sent []batch.ID // in any POST, whether or not the node accepted it
	for _, e := range node.Journal() {
		if e.Kind == sawtoothtest.PostStart {
			sent = append(sent, e.Batches...)
		}
	}
	chain := node.Chain()
	var wrong []error
	committed, traces := 0, 0
	for _, c := range orders {
		b, err := s.sign(c.order)
		if err != nil {
			return err
		}
		rec, err := s.runner.Get(ctx, b.Key())
		if err != nil && !errors.Is(err, batch.ErrNotFound) {
			return err
		}
		stored, n := err == nil, countID(chain, b.ID)
		switch {
		case !c.isPlaced():
			if stored || slices.Contains(rows, b.ID) || slices.Contains(sent, b.ID) {
				traces++
				wrong = append(wrong, fmt.Errorf("order %s was rolled back and left a trace", c.ID))
			}
		case !stored || rec.State != batch.Committed || rec.DataChangeID != c.ID || n != 1 || countID(rows, b.ID) != 1:
			wrong = append(wrong, fmt.Errorf("order %s: %d rows, stored as %q (%v), committed %d times", c.ID, countID(rows, b.ID), rec.State, stored, n))
		default:
			committed++
		}
	}
	if len(chain) != len(rows) {
		wrong = append(wrong, fmt.Errorf("%d rows and %d batches", len(rows), len(chain)))
	}
	fmt.Fprintf(out, "\n  %5d  rows in the application's table\n", len(rows))
	fmt.Fprintf(out, "  %5d  batches committed by the node, says its journal; %d of them for the rows, once each\n", len(chain), committed)
	fmt.Fprintf(out, "  %5d  traces of rolled-back transactions: no row, no batch, never sent\n", traces)
	if wrong != nil {
		return fmt.Errorf("THE PROOF FAILS: %w", errors.Join(wrong...))
	}
	fmt.Fprintf(out, "PROVED in %.1f s: an order and its batch happen together, once, or not at all\n", took.Seconds())
	return nil
}

// storedBatchIDs returns the batches of the application's orders.
func (s *shop) storedBatchIDs(ctx context.Context) (ids []batch.ID, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT batch FROM orders`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id batch.ID
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func countID(ids []batch.ID, id batch.ID) (n int) {
	for _, x := range ids {
		if x == id {
			n++
		}
	}
	return n
}
