package console_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

func (p *person) desk() *operator.Desk {
	p.Helper()
	d, err := operator.New(p.st)
	require.NoError(p, err)
	return d
}

// preview selects all waiting batches of a lane, to cancel them.
func (p *person) preview(lane batch.ServiceID) operator.Selection {
	p.Helper()
	sel, err := p.desk().Preview(p.ctx(), operator.Bulk{Action: batch.ActionCancel, Filter: operator.Filter{Service: &lane}})
	require.NoError(p, err)
	return sel
}

// slowStore is a store that calls a function before one of its cancels.
type slowStore struct {
	store.Store
	cancelsLeft  atomic.Int64
	beforeCancel func(ctx context.Context) error
}

func (s *slowStore) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	if s.cancelsLeft.Add(-1) == 0 {
		if err := s.beforeCancel(ctx); err != nil {
			return batch.Record{}, err
		}
	}
	return s.Store.Cancel(ctx, seen, by)
}

// newPersonWithSlowBulk returns a person whose console stops before the 150th batch of 250, until
// released or the console is closed.
func newPersonWithSlowBulk(t *testing.T) (p *person, goOn chan struct{}) {
	goOn = make(chan struct{})
	st := memory.New()
	s := &slowStore{Store: st, beforeCancel: func(ctx context.Context) error {
		select {
		case <-goOn:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	s.cancelsLeft.Store(150)
	p = newPersonFor(t, st, s, byHeader)
	p.recordServing(nil, "s")
	p.add("s", orderedIDs(250)...)
	return p, goOn
}

// beginSlowBulk starts a bulk action that does not end.
func (p *person) beginSlowBulk(preview shownPage) shownPage {
	p.Helper()
	page := p.submit(preview, "Carry it out: cancel", reasonFields("confirm", "250"))
	require.Equal(p, http.StatusOK, page.status, page.text())
	return page
}

// checkCancelledOnce checks that the bulk action cancelled each of the batches exactly once.
func (p *person) checkCancelledOnce(ids []batch.ID) {
	p.Helper()
	for _, id := range ids {
		acts, err := p.st.History(p.ctx(), batch.Key{Service: "s", ID: id})
		require.NoError(p, err)
		require.Len(p, acts, 1, id)
		assert.True(p, strings.HasPrefix(acts[0].Reason, "bulk "), acts[0].Reason)
	}
}

// reloadUntil reads a page again until it has these words.
func (p *person) reloadUntil(s shownPage, words string) shownPage {
	p.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if s = p.request(http.MethodGet, s.url.String(), nil); strings.Contains(s.text(), words) {
			return s
		}
	}
	require.Failf(p, "it does not end", "%s in %s", words, s.text())
	return s
}

// A bulk action outlives its request. The page shows its progress, and at the end the batches that
// were not acted upon.
func TestBulkUnderWay(t *testing.T) {
	p, goOn := newPersonWithSlowBulk(t)
	preview := p.get("bulk?action=cancel")
	page := p.beginSlowBulk(preview)
	assert.Equal(t, "2", page.header.Get("Refresh"))
	assert.Contains(t, page.text(), "100 of 250 batches have had their turn")
	assert.Contains(t, page.text(), "This console carries it out")
	assert.NotContains(t, page.text(), "What was not done", "it is read at the end")
	assert.Contains(t, p.get("bulks").text(), "under way here")
	still := p.followLink(page, "Stop that, to go on with it, to cancel it, or for what was not done")
	assert.Empty(t, still.header.Get("Refresh"))
	assert.NotContains(t, still.html, `id="resume"`, "it is under way here")

	again := p.submit(preview, "Carry it out: cancel", reasonFields("confirm", "250"))
	assert.Equal(t, page.url.String(), again.url.String(), "a form that is sent twice")
	close(goOn)
	end := p.reloadUntil(page, "It is finished")
	assert.Empty(t, end.header.Get("Refresh"))
	assert.Contains(t, end.text(), "250 of 250 batches have had their turn: it was done to 250 of them")
	assert.Contains(t, end.text(), "It was done to each batch")
	history := p.get("audit")
	assert.Contains(t, history.text(), "bulk action: ticket 17")
	assert.Contains(t, p.followLink(history, "bulk action").text(), "It is finished")
	p.checkCancelledOnce(orderedIDs(250))
	late := p.submit(preview, "Carry it out: cancel", reasonFields("confirm", "250"))
	assert.Equal(t, page.url.String(), late.url.String(), "and after the end")
	p.checkCancelledOnce(orderedIDs(250))
	assert.Equal(t, http.StatusConflict, p.submit(still, "Cancel it", reasonFields()).status)
	assert.Equal(t, http.StatusNotFound, p.request(http.MethodGet, p.url+"progress?token=none", nil).status)
	assert.Contains(t, p.request(http.MethodGet, p.url+"progress", nil).text(), "30 days")
}

// After the console's process has died, no process continues by itself. A person continues the
// action in another process, and no batch is acted upon twice.
func TestBulkAfterACrash(t *testing.T) {
	p, _ := newPersonWithSlowBulk(t)
	page := p.beginSlowBulk(p.get("bulk?action=cancel"))
	p.pages.Close() // in the middle of a chunk, whose progress is not kept
	assert.Equal(t, batch.Rejected, p.readRecord("s", orderedIDs(250)[148]).State)
	assert.Equal(t, http.StatusServiceUnavailable, p.submit(p.get("bulk?action=cancel"), "Carry it out: cancel", reasonFields("confirm", "101")).status, "it is closed")

	other := newPersonFor(t, p.st, p.st, byHeader)
	other.name = "bob"
	list := other.get("bulks")
	assert.Contains(t, list.text(), "100 of 250")
	assert.NotContains(t, list.text(), "under way here")
	for _, a := range list.descendants("main")[0].descendants("a") {
		if strings.HasPrefix(a.attrs["href"], "progress?") && strings.Contains(page.url.RawQuery, a.attrs["href"][len("progress?"):]) {
			page = other.followLink(list, strings.TrimSpace(a.text()))
		}
	}
	assert.Contains(t, page.text(), "This process does not carry it out")
	assert.Equal(t, batch.Queued, p.readRecord("s", orderedIDs(250)[149]).State)
	assert.Equal(t, http.StatusBadRequest, other.submit(page, "Go on", reasonFields("confirm", "1")).status)
	end := other.reloadUntil(other.submit(page, "Go on", reasonFields("confirm", "250")), "It is finished")
	assert.Contains(t, end.text(), "it was done to 250 of them", "what was done before counts as done")
	assert.Contains(t, end.text(), "resumebob100ticket 17", "who went on, and where")
	p.checkCancelledOnce(orderedIDs(250))
}

// A person cancels an action that is under way, and the remaining batches stay as they are.
func TestBulkCancelledInABrowser(t *testing.T) {
	p, goOn := newPersonWithSlowBulk(t)
	page := p.followLink(p.beginSlowBulk(p.get("bulk?action=cancel")), "Stop that, to go on with it, to cancel it, or for what was not done")
	over := p.submit(page, "Cancel it", reasonFields())
	assert.Contains(t, over.text(), "It is cancelled")
	close(goOn)
	end := p.reloadUntil(over, "200 of 250 batches have had their turn: it was done to 200 of them")
	assert.Contains(t, end.text(), "cancelada100ticket 17")
	assert.NotContains(t, end.text(), "What you can do")
	assert.Equal(t, batch.Rejected, p.readRecord("s", orderedIDs(250)[199]).State)
	assert.Equal(t, batch.Queued, p.readRecord("s", orderedIDs(250)[200]).State)
}

// If the store fails, or the store or its driver panics, the action ends and the process goes on.
// The page says that the action ended, without the error's text, and a person can continue it.
func TestBulkEndsEarly(t *testing.T) {
	const broken = "dial postgres://ada:" + secret + "@db: refused"
	for name, c := range map[string]struct {
		do   func(context.Context) error
		page string
		log  []string
	}{
		"fails":  {func(context.Context) error { return errors.New(broken) }, "It was not reached, or gave an error.", []string{"refused"}},
		"panics": {func(context.Context) error { panic(broken) }, "The store or its driver panicked.", []string{"panic: dial", "stack=", "slow"}},
	} {
		t.Run(name, func(t *testing.T) {
			st := memory.New()
			s := &slowStore{Store: st, beforeCancel: c.do}
			s.cancelsLeft.Store(2)
			p := newPersonFor(t, st, s, byHeader)
			p.recordServing(nil, "s")
			p.add("s", orderedIDs(3)...)
			page := p.submit(p.get("bulk?action=cancel"), "Carry it out: cancel", reasonFields("confirm", "3"))
			assert.Contains(t, page.text(), "It ended early here. "+c.page)
			for _, words := range c.log {
				assert.Contains(t, p.log.String(), words)
			}
			still := p.followLink(page, "Stop that, to go on with it, to cancel it, or for what was not done")
			end := p.reloadUntil(p.submit(still, "Go on", reasonFields("confirm", "3")), "It is finished")
			assert.Contains(t, end.text(), "it was done to 3 of them")
			p.checkCancelledOnce(orderedIDs(3))
		})
	}
}

// One process carries out at most four actions at once, and a selection that waits for its turn is
// kept.
func TestBulksAtOnce(t *testing.T) {
	goOn := make(chan struct{})
	st := memory.New()
	p := newPersonFor(t, st, &heldStore{st, goOn}, byHeader)
	p.recordServing(nil, "s")
	var last shownPage
	for i, id := range orderedIDs(5) {
		lane := batch.ServiceID(id)
		p.add(lane, id)
		last = p.submit(p.get("bulk?action=cancel&service="+string(lane)), "Carry it out: cancel", reasonFields("confirm", "1"))
		want := http.StatusOK
		if i == 4 {
			want = http.StatusServiceUnavailable
		}
		require.Equal(t, want, last.status, last.text())
	}
	assert.Contains(t, last.text(), "The action is kept")
	close(goOn)
	list, err := operator.NewBulks(p.desk()).List(p.ctx())
	require.NoError(t, err)
	require.Len(t, list, 5)
	page := p.get("progress?token=" + list[0].Token)
	for _, before := range list[1:] {
		p.reloadUntil(p.get("progress?token="+before.Token), "It is finished")
	}
	p.reloadUntil(p.submit(page, "Go on", reasonFields("confirm", "1")), "It is finished")
}

// heldStore is a store whose cancels wait until the channel is closed.
type heldStore struct {
	store.Store
	released chan struct{}
}

func (h *heldStore) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	<-h.released
	return h.Store.Cancel(ctx, seen, by)
}
