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

// slow is a store that calls a function before one of its cancels.
type slow struct {
	store.Store
	left atomic.Int64
	do   func(ctx context.Context) error
}

func (s *slow) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	if s.left.Add(-1) == 0 {
		if err := s.do(ctx); err != nil {
			return batch.Record{}, err
		}
	}
	return s.Store.Cancel(ctx, seen, by)
}

// slowly returns a person whose console stops before the 150th batch of 250, until goOn or the
// console is closed.
func slowly(t *testing.T) (p *person, goOn chan struct{}) {
	goOn = make(chan struct{})
	st := memory.New()
	s := &slow{Store: st, do: func(ctx context.Context) error {
		select {
		case <-goOn:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	s.left.Store(150)
	p = visits(t, st, s, byHeader)
	p.serves(nil, "s")
	p.add("s", names(250)...)
	return p, goOn
}

// begins starts a bulk action that does not end.
func (p *person) begins(preview sheet) sheet {
	p.Helper()
	page := p.submit(preview, "Carry it out: cancel", reason("confirm", "250"))
	require.Equal(p, http.StatusOK, page.status, page.text())
	return page
}

// once checks that the bulk action cancelled each of the batches exactly once.
func (p *person) once(ids []batch.ID) {
	p.Helper()
	for _, id := range ids {
		acts, err := p.st.History(p.ctx(), batch.Key{Service: "s", ID: id})
		require.NoError(p, err)
		require.Len(p, acts, 1, id)
		assert.True(p, strings.HasPrefix(acts[0].Reason, "bulk "), acts[0].Reason)
	}
}

// until reads a page again until it has these words.
func (p *person) until(s sheet, words string) sheet {
	p.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if s = p.ask(http.MethodGet, s.at.String(), nil); strings.Contains(s.text(), words) {
			return s
		}
	}
	require.Failf(p, "it does not end", "%s in %s", words, s.text())
	return s
}

// A bulk action outlives its request. The page shows its progress, and at the end the batches that
// were not acted upon.
func TestBulkUnderWay(t *testing.T) {
	p, goOn := slowly(t)
	preview := p.get("bulk?action=cancel")
	page := p.begins(preview)
	assert.Equal(t, "2", page.header.Get("Refresh"))
	assert.Contains(t, page.text(), "100 of 250 batches have had their turn")
	assert.Contains(t, page.text(), "This console carries it out")
	assert.NotContains(t, page.text(), "What was not done", "it is read at the end")
	assert.Contains(t, p.get("bulks").text(), "under way here")
	still := p.follow(page, "Stop that, to go on with it, to cancel it, or for what was not done")
	assert.Empty(t, still.header.Get("Refresh"))
	assert.NotContains(t, still.html, `id="resume"`, "it is under way here")

	again := p.submit(preview, "Carry it out: cancel", reason("confirm", "250"))
	assert.Equal(t, page.at.String(), again.at.String(), "a form that is sent twice")
	close(goOn)
	end := p.until(page, "It is finished")
	assert.Empty(t, end.header.Get("Refresh"))
	assert.Contains(t, end.text(), "250 of 250 batches have had their turn: it was done to 250 of them")
	assert.Contains(t, end.text(), "It was done to each batch")
	history := p.get("audit")
	assert.Contains(t, history.text(), "bulk action: ticket 17")
	assert.Contains(t, p.follow(history, "bulk action").text(), "It is finished")
	p.once(names(250))
	late := p.submit(preview, "Carry it out: cancel", reason("confirm", "250"))
	assert.Equal(t, page.at.String(), late.at.String(), "and after the end")
	p.once(names(250))
	assert.Equal(t, http.StatusConflict, p.submit(still, "Cancel it", reason()).status)
	assert.Equal(t, http.StatusNotFound, p.ask(http.MethodGet, p.url+"progress?token=none", nil).status)
	assert.Contains(t, p.ask(http.MethodGet, p.url+"progress", nil).text(), "30 days")
}

// After the console's process has died, no process continues by itself. A person continues the
// action in another process, and no batch is acted upon twice.
func TestBulkAfterACrash(t *testing.T) {
	p, _ := slowly(t)
	page := p.begins(p.get("bulk?action=cancel"))
	p.pages.Close() // in the middle of a chunk, whose progress is not kept
	assert.Equal(t, batch.Rejected, p.see("s", names(250)[148]).State)
	assert.Equal(t, http.StatusServiceUnavailable, p.submit(p.get("bulk?action=cancel"), "Carry it out: cancel", reason("confirm", "101")).status, "it is closed")

	other := visits(t, p.st, p.st, byHeader)
	other.name = "bob"
	list := other.get("bulks")
	assert.Contains(t, list.text(), "100 of 250")
	assert.NotContains(t, list.text(), "under way here")
	for _, a := range list.all("main")[0].all("a") {
		if strings.HasPrefix(a.attrs["href"], "progress?") && strings.Contains(page.at.RawQuery, a.attrs["href"][len("progress?"):]) {
			page = other.follow(list, strings.TrimSpace(a.text()))
		}
	}
	assert.Contains(t, page.text(), "This process does not carry it out")
	assert.Equal(t, batch.Queued, p.see("s", names(250)[149]).State)
	assert.Equal(t, http.StatusBadRequest, other.submit(page, "Go on", reason("confirm", "1")).status)
	end := other.until(other.submit(page, "Go on", reason("confirm", "250")), "It is finished")
	assert.Contains(t, end.text(), "it was done to 250 of them", "what was done before counts as done")
	assert.Contains(t, end.text(), "resumebob100ticket 17", "who went on, and where")
	p.once(names(250))
}

// A person cancels an action that is under way, and the remaining batches stay as they are.
func TestBulkCancelledInABrowser(t *testing.T) {
	p, goOn := slowly(t)
	page := p.follow(p.begins(p.get("bulk?action=cancel")), "Stop that, to go on with it, to cancel it, or for what was not done")
	over := p.submit(page, "Cancel it", reason())
	assert.Contains(t, over.text(), "It is cancelled")
	close(goOn)
	end := p.until(over, "200 of 250 batches have had their turn: it was done to 200 of them")
	assert.Contains(t, end.text(), "cancelada100ticket 17")
	assert.NotContains(t, end.text(), "What you can do")
	assert.Equal(t, batch.Rejected, p.see("s", names(250)[199]).State)
	assert.Equal(t, batch.Queued, p.see("s", names(250)[200]).State)
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
			s := &slow{Store: st, do: c.do}
			s.left.Store(2)
			p := visits(t, st, s, byHeader)
			p.serves(nil, "s")
			p.add("s", names(3)...)
			page := p.submit(p.get("bulk?action=cancel"), "Carry it out: cancel", reason("confirm", "3"))
			assert.Contains(t, page.text(), "It ended early here. "+c.page)
			for _, words := range c.log {
				assert.Contains(t, p.log.String(), words)
			}
			still := p.follow(page, "Stop that, to go on with it, to cancel it, or for what was not done")
			end := p.until(p.submit(still, "Go on", reason("confirm", "3")), "It is finished")
			assert.Contains(t, end.text(), "it was done to 3 of them")
			p.once(names(3))
		})
	}
}

// One process carries out at most four actions at once, and a selection that waits for its turn is
// kept.
func TestBulksAtOnce(t *testing.T) {
	goOn := make(chan struct{})
	st := memory.New()
	p := visits(t, st, &held{st, goOn}, byHeader)
	p.serves(nil, "s")
	var last sheet
	for i, id := range names(5) {
		lane := batch.ServiceID(id)
		p.add(lane, id)
		last = p.submit(p.get("bulk?action=cancel&service="+string(lane)), "Carry it out: cancel", reason("confirm", "1"))
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
		p.until(p.get("progress?token="+before.Token), "It is finished")
	}
	p.until(p.submit(page, "Go on", reason("confirm", "1")), "It is finished")
}

// held is a store whose cancels wait until the channel is closed.
type held struct {
	store.Store
	goOn chan struct{}
}

func (h *held) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	<-h.goOn
	return h.Store.Cancel(ctx, seen, by)
}
