package cantontest

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

// serveStream serves the WebSocket: it reads one request, and sends completions until the client
// leaves (docs/ledgers/canton.md#completions). An error is one frame, the last one.
func (p *Participant) serveStream(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.doWhatIsDue(time.Now())
	f := p.drawFault(RequestPoint{Operation: OpStream})
	p.mu.Unlock()
	if !p.pause(r, f.Delay) {
		simnode.Reset(w)
		return
	}
	if f.Answer != AnswerProperly && f.Answer != AnswerError {
		p.send(w, r, jsonAnswer(http.StatusOK, map[string]any{}), f)
		return
	}
	// The participant names this protocol even if the client has not offered it.
	w.Header().Set("Sec-WebSocket-Protocol", "daml.ws.auth")
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has sent the answer
	}
	p.sockets.mu.Lock()
	if p.sockets.isDown {
		p.sockets.mu.Unlock()
		_ = conn.CloseNow()
		return
	}
	p.sockets.conns[conn] = struct{}{}
	p.sockets.inUse.Add(1)
	p.sockets.mu.Unlock()
	// The request's context has no meaning after its connection was taken over.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	gone := make(chan struct{})
	first := make(chan []byte, 1)
	go func() {
		defer close(gone)
		defer cancel()
		for { // later requests are ignored
			_, text, err := conn.Read(ctx)
			if err != nil {
				return
			}
			select {
			case first <- text:
			default:
			}
		}
	}()
	select {
	case text := <-first:
		p.sendAll(r.WithContext(ctx), conn, text, f)
	case <-ctx.Done():
	case <-p.closed:
	}
	cancel()
	_ = conn.CloseNow() // the connection may have ended already
	<-gone
	p.sockets.mu.Lock()
	delete(p.sockets.conns, conn)
	p.sockets.mu.Unlock()
	p.sockets.inUse.Done()
}

func (p *Participant) sendAll(r *http.Request, conn *websocket.Conn, request []byte, f Fault) {
	write := func(v any) bool {
		b, ok := v.([]byte)
		if !ok {
			var err error
			if b, err = json.Marshal(v); err != nil {
				panic(err) // cannot fail for maps, slices, strings and numbers
			}
		}
		return conn.Write(r.Context(), websocket.MessageText, b) == nil
	}
	var doc completionsJSON
	if f.Answer == AnswerError {
		write(f.changedAnswer(answer{}).body)
		return
	}
	if err := json.Unmarshal(request, &doc); err != nil {
		write(refusalError{id: "MALFORMED_REQUEST", cause: "the frame is no request"}.answer().body)
		return
	}
	from, refused := p.openCompletions(r, doc)
	if refused != nil {
		write(refused.body)
		return
	}
	idle := time.NewTimer(p.options.IdleCheckpoint)
	defer idle.Stop()
	for {
		more, changed, due := from.next(0)
		for _, v := range more {
			if !write(v) {
				return
			}
		}
		if len(more) > 0 {
			idle.Reset(p.options.IdleCheckpoint)
		}
		if p.waitForMore(r, changed, due, idle.C) {
			continue
		}
		select {
		case <-r.Context().Done():
			return
		case <-p.closed:
			return
		default:
		}
		if !write(encodeCheckpoint(p.LedgerEnd())) {
			return
		}
		idle.Reset(p.options.IdleCheckpoint)
	}
}
