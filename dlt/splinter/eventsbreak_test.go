package splinter_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

func TestEventsBreak(t *testing.T) {
	serve := func(h func(ctx context.Context, c *websocket.Conn)) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer func() { _ = c.CloseNow() }()
			h(r.Context(), c)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	// hear reads until the client leaves, and sends nothing.
	hear := func(ctx context.Context, c *websocket.Conn) {
		for {
			if _, _, err := c.Read(ctx); err != nil {
				return
			}
		}
	}
	say := func(text string) func(context.Context, *websocket.Conn) {
		return func(ctx context.Context, c *websocket.Conn) {
			_ = c.Write(ctx, websocket.MessageText, []byte(text))
			hear(ctx, c)
		}
	}
	for name, h := range map[string]func(context.Context, *websocket.Conn){
		"no echo":            hear,
		"no JSON":            say("<html>"),
		"no id":              say(`{"state_changes":[]}`),
		"too long":           say(`{"id":"` + string(make([]byte, 200)) + `"}`),
		"the server is gone": func(_ context.Context, c *websocket.Conn) { _ = c.Close(websocket.StatusGoingAway, "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := clientOptions(nil)
			o.MaxResponse = 100
			c := newClient(t, serve(h), o)
			l := startListener(t, c, service)
			l.waitForLive()
			err := l.waitForEnd()
			var e *dlt.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, "events", e.Op)
		})
	}
}

func TestEventsRefused(t *testing.T) {
	never := func(dlt.Event) error { return errors.New("an event") }
	for name, row := range map[string]struct {
		url      string
		wantKind batch.ErrorKind
	}{
		"nobody listens":  {deadURL(t), batch.KindUnavailable},
		"401":             {startNodeThatAnswers(t, 401, jsonType, `{"code":"401","message":"m"}`).URL, batch.KindMisconfigured},
		"404":             {startNodeThatAnswers(t, 404, jsonType, `{"message":"m"}`).URL, batch.KindUnavailable},
		"500":             {startNodeThatAnswers(t, 500, jsonType, `{"code":"500","message":"m"}`).URL, batch.KindDoubt},
		"200":             {startNodeThatAnswers(t, 200, "", ``).URL, batch.KindDoubt},
		"307 is followed": {startNodeThatAnswers(t, 307, "", ``, "Location", "/x").URL, batch.KindMisconfigured},
	} {
		t.Run(name, func(t *testing.T) {
			err := newClient(t, row.url, nil).Events(t.Context(), []batch.ServiceID{service}, never)
			var e *dlt.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, row.wantKind, dlt.Kind(err), "%v", err)
		})
	}
	c := newClient(t, deadURL(t), nil)
	assert.Error(t, c.Events(t.Context(), nil, never))
	assert.Error(t, c.Events(t.Context(), []batch.ServiceID{service, "aaaaa-bbbbb::a001"}, never))
	assert.Error(t, c.Events(t.Context(), []batch.ServiceID{"x"}, never))
}

func TestEventsAuthorize(t *testing.T) {
	var good atomic.Value
	good.Store("OAuth2:first")
	net := splintertest.Start(t, &splintertest.Options{
		Authorize: func(h string, _ splintertest.Operation) bool { return h == "Bearer "+good.Load().(string) },
	})
	o := clientOptions(nil)
	o.Token = func(context.Context, string) (string, error) { return good.Load().(string), nil }
	c := newClient(t, net.URL(0), o)
	l := startListener(t, c, net.Service(0))
	l.waitForLive()
	good.Store("OAuth2:second")
	err := c.Events(t.Context(), []batch.ServiceID{net.Service(0)}, func(dlt.Event) error { return nil })
	require.Equal(t, batch.KindMisconfigured, dlt.Kind(err), "%v", err)
	assert.NotContains(t, err.Error(), "first")
	startListener(t, c, net.Service(0)).waitForLive()
}
