package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/desks"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// shardTimeLimit limits how long a page about all shards waits for each of them.
const shardTimeLimit = 4 * time.Second

// NewShards returns the console of all shards of a set (package shards). The stores are in the
// order of their shards' numbers: a store that was opened as another shard gives a
// [*batch.InputError]. The first page and the search cover all shards. Each shard has its own
// pages, below the path of its number, and links to lanes and batches lead there. If a shard does
// not answer, the others are still shown. The options apply to all shards; otherwise it works as
// [New] does.
func NewShards(o *Options, stores ...store.Store) (*Console, error) {
	if len(stores) == 0 {
		return nil, fmt.Errorf("console: %w", &batch.InputError{Field: "stores", Value: "none", Want: "the stores of all shards"})
	}
	c, err := newConsole(o)
	if err != nil {
		return nil, err
	}
	set := ""
	for i, s := range stores {
		if known, is := s.(interface{ Shard() store.Shard }); is && known.Shard() != (store.Shard{}) {
			have := known.Shard()
			set = cmp.Or(set, have.Set)
			if want := (store.Shard{Set: set, Number: i, Of: len(stores)}); have != want {
				return nil, fmt.Errorf("console: %w", &batch.InputError{Field: fmt.Sprintf("stores[%d]", i), Value: have.String(), Want: want.String()})
			}
		}
		one, err := New(s, o)
		if err != nil {
			return nil, fmt.Errorf("shard %d: %w", i, err)
		}
		one.parent, one.name = c, fmt.Sprintf("shard %d of %d", i, len(stores))
		c.shards = append(c.shards, one)
	}
	c.overview = newShared(c.readOverviews)
	c.clockAndPause = newShared(func(context.Context) (clockAndPause, error) { return clockAndPause{now: time.Now().UTC()}, nil })
	return c, nil
}

// serveShard passes a request to the console of the shard with whose number the path begins. It
// returns false if the path begins with no such number.
func (c *Console) serveShard(w http.ResponseWriter, r *http.Request) bool {
	first, rest, is := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	n, err := strconv.Atoi(first)
	if !is || err != nil || n < 0 || n >= len(c.shards) || strconv.Itoa(n) != first {
		return false
	}
	one, url := *r, *r.URL
	url.Path, url.RawPath = "/"+rest, ""
	one.URL = &url
	c.shards[n].ServeHTTP(w, &one)
	return true
}

// route returns the page at a path.
func (c *Console) route(path string) page {
	p := pageAt(path)
	switch strings.TrimPrefix(path, "/") {
	case "", "search", "search.json", "style.css", "console.js":
	default:
		if p != nil && c.shards != nil {
			return shardPage
		}
	}
	return p
}

// shardsBody holds links to the pages of the shards.
type shardsBody struct{ Links []formChoice }

// shardPage redirects to the page in the shard of the request's lane. If the page is about no
// lane, it shows a link for each shard.
func shardPage(_ context.Context, v *visit) (*answer, error) {
	page := strings.TrimPrefix(v.request.URL.Path, "/")
	if v.request.URL.RawQuery != "" {
		page += "?" + v.request.URL.RawQuery
	}
	for _, name := range []string{"service", "lane"} {
		if lane := v.query.Get(name); lane != "" || v.query.Has(name) && v.query.Get("id") != "" {
			return &answer{redirectTo: fmt.Sprintf("%d/%s", store.ShardOf(batch.ServiceID(lane), len(v.shards)), page)}, nil
		}
	}
	var b shardsBody
	for i := range v.shards {
		b.Links = append(b.Links, formChoice{Value: fmt.Sprintf("%d/%s", i, page), Title: fmt.Sprint("Shard ", i)})
	}
	return &answer{page: "shards", title: "Choose a shard", body: b}, nil
}

// askShards asks all shards, and logs the errors of shards that fail. It returns an error only if
// all failed.
func askShards[T any](ctx context.Context, c *Console, do func(context.Context, *Console) (T, error)) ([]desks.Answer[T], error) {
	answers := desks.Ask(ctx, c.shards, func(ctx context.Context, one *Console) (T, error) {
		ctx, cancel := context.WithTimeout(ctx, shardTimeLimit)
		defer cancel()
		return do(ctx, one)
	})
	var all []error
	for _, a := range answers {
		if a.Err != nil && ctx.Err() == nil {
			c.log.ErrorContext(ctx, "console: a shard did not answer", slog.Int("shard", a.Shard), slog.Any("error", a.Err))
			all = append(all, a.Err)
		}
	}
	if len(all) == len(answers) {
		return nil, errors.Join(all...)
	}
	return answers, ctx.Err()
}

// readOverviews joins the overviews of the shards.
func (c *Console) readOverviews(ctx context.Context) (o overview, err error) {
	o.shards, err = askShards(ctx, c, func(ctx context.Context, one *Console) (operator.Situation, error) {
		of, _, err := one.overview.get(ctx)
		return of.Situation, err
	})
	if err != nil {
		return o, err
	}
	o.Situation = desks.JoinSituations(o.shards, func(shard int, page string) string {
		if page == "" {
			return ""
		}
		return fmt.Sprintf("%d/%s", shard, page)
	})
	return o, nil
}

// lookup returns what a text names in all shards. missing names the shards that did not answer.
func (c *Console) lookup(ctx context.Context, text string, limit int) (found operator.Lookup, missing string, err error) {
	if c.shards == nil {
		found, err = c.desk.Lookup(ctx, text, limit)
		return found, "", err
	}
	answers, err := askShards(ctx, c, func(ctx context.Context, one *Console) (operator.Lookup, error) {
		return one.desk.Lookup(ctx, text, limit)
	})
	if err != nil {
		return found, "", err
	}
	return desks.JoinLookups(desks.Values(answers)), desks.Missing(answers), nil
}

// shardRow is a shard on the first page of all shards.
type shardRow struct {
	Number    int
	Failed    bool
	Band      topLine
	Open      int
	Lanes     int
	Oldest    time.Time
	Final     string // batches per second
	Instances int    // live instances
}

func (o overview) rows() (rows []shardRow) {
	for _, a := range o.shards {
		r, s := shardRow{Number: a.Shard, Failed: a.Err != nil}, a.Value.Stats
		if !r.Failed {
			r.Band, r.Lanes, r.Oldest, r.Final = topLineOf(overview{Situation: a.Value}), s.Lanes, s.Oldest, operator.PerSecond(operator.FlowOf(s).Final)
		}
		for _, n := range s.Open {
			r.Open += n
		}
		for _, i := range s.Instances {
			if i.Live {
				r.Instances++
			}
		}
		rows = append(rows, r)
	}
	return rows
}
