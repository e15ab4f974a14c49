package splinter

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/dltbatch/dltbatch/dlt"
)

// receiptState is the finding of a search in a node's durable receipts of a batch.
type receiptState uint8

const (
	receiptsUnknown receiptState = iota // not asked for, or the answers prove nothing
	receiptsPresent                     // one of the batch's transactions has a receipt, and so all have
	receiptsMissing                     // none of the batch's transactions has a receipt
)

// replayPageLen is how many receipts a node reads at a time for a replay. It is also how many
// receipts after a cursor it certainly replays.
const replayPageLen = 64

// A node keeps a receipt of every committed transaction for ever, and replays receipts to a
// subscriber: those with an id greater than the cursor, the oldest first, 64 of them. Then it goes
// on at the id of the last one, wherever that is (libscabbard 0.6.14, state/mod.rs; sawtooth-lib
// 0.7.3, list_receipts_since.rs). So a cursor just below an id asks for the receipt with that id.
// If fewer than 64 receipts come, they are all the receipts with this id or a greater one. If 64
// come without this id, no cursor ever shows its receipt, whether it exists or not.

// cursorsBefore returns the cursors from which to ask, the greatest first. own is the one just
// below the id. The cursors above own show, at a small cost to the node, whether there are too
// many receipts. The cursors below it show whether the node replays anything at all.
func cursorsBefore(id string) (list []string, own string) {
	at, ok := new(big.Int).SetString(id, 16)
	if !ok || at.Sign() == 0 {
		return nil, ""
	}
	own = formatCursor(at.Sub(at, big.NewInt(1)))
	end := new(big.Int).Lsh(big.NewInt(1), 4*idLen)
	for shift := uint(20); ; shift -= 4 {
		list = append(list, formatCursor(new(big.Int).Sub(end, new(big.Int).Rsh(end, shift))))
		if shift == 0 {
			break
		}
	}
	list = append(list, own)
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(b, a) })
	return slices.Compact(list), own
}

func formatCursor(at *big.Int) string { return fmt.Sprintf("%0*x", idLen, at) }

// replayResult is one replay: the receipts after a cursor, and whether the replay's end was seen.
type replayResult struct {
	cursor   string
	ids      []string // each id once
	hasEnded bool
}

// receiptSearch reads a node's replays until they show whether the node has the receipts of a
// batch.
type receiptSearch struct {
	ids       []string // the ids of the batch's transactions
	ownCursor string   // the cursor just below the greatest of ids
	hasReplay bool     // the node has replayed something
	isMissing bool     // true if the receipts are missing, provided that the node replays anything at all
}

// addReplay reads one replay; the replays from greater cursors come first. done is true if no more
// replays are needed. take is pure.
func (q *receiptSearch) addReplay(r replayResult) (found receiptState, done bool) {
	for _, id := range r.ids {
		switch {
		case id <= r.cursor: // the store does not select receipts by id, so its replay proves nothing
			return receiptsUnknown, true
		case slices.Contains(q.ids, id):
			return receiptsPresent, true
		}
	}
	q.hasReplay = q.hasReplay || len(r.ids) > 0
	full := len(r.ids) >= replayPageLen
	switch {
	case !full && !r.hasEnded: // the replay broke off
		return receiptsUnknown, true
	case r.cursor == q.ownCursor:
		q.isMissing = !full
		done = full
	case full:
		// If the cursor is above the own one, there are too many receipts, and more below.
		done = r.cursor > q.ownCursor
	}
	if q.isMissing && q.hasReplay {
		return receiptsMissing, true
	}
	return receiptsUnknown, done
}

// receiptsOf asks a node whether it has the receipts of these transactions, which are all those of
// one batch: the node writes them together. Errors are [*dlt.Error]s.
func (c *Client) receiptsOf(ctx context.Context, p location, ids []string) (receiptState, error) {
	if len(ids) == 0 {
		return receiptsUnknown, nil
	}
	list, own := cursorsBefore(slices.Max(ids))
	q := receiptSearch{ids: ids, ownCursor: own}
	for _, from := range list {
		r, err := c.replay(ctx, p, from)
		if err != nil {
			return receiptsUnknown, err
		}
		if found, done := q.addReplay(r); done {
			return found, nil
		}
	}
	return receiptsUnknown, nil
}

// replay subscribes at a cursor, and reads the node's replay. The node echoes text after the
// replay: two echoes with no receipt in between mark its end.
func (c *Client) replay(ctx context.Context, p location, from string) (replayResult, error) {
	r := replayResult{cursor: from}
	conn, err := c.subscribeAt(ctx, p, from)
	if err != nil {
		return r, err
	}
	defer func() { _ = conn.CloseNow() }()
	probe := newProber(time.Nanosecond)
	fail := func(err error) (replayResult, error) {
		return r, &dlt.Error{Op: opResolve, Kind: dlt.ErrUnavailable, Err: c.redactError(err)}
	}
	for len(r.ids) < replayPageLen {
		text, _ := probe.nextProbe(time.Now(), true)
		if text != "" {
			if err := conn.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
				return fail(err)
			}
		}
		_, frame, err := conn.Read(ctx)
		if err != nil {
			return fail(err)
		}
		if probe.isEcho(frame, time.Now()) {
			if r.hasEnded = !probe.settledUntil.IsZero(); r.hasEnded {
				return r, nil
			}
			continue
		}
		id, err := parseEvent(frame)
		if err != nil {
			return fail(err)
		}
		probe.noteEvent()
		if !slices.Contains(r.ids, id) {
			r.ids = append(r.ids, id)
		}
	}
	return r, nil
}
