package splinter

import (
	"context"

	"github.com/dltbatch/dltbatch/dlt"
)

// needsAgreement reports whether a service's circuit has another scabbard service, which must
// reach the same state before a batch is committed. It asks the node once, since the services of a
// circuit never change. The error is a [*dlt.Error].
func (c *Client) needsAgreement(ctx context.Context, p location) (bool, error) {
	key := p.node + " " + p.circuit
	if many, known := c.circuits.Load(key); known {
		return many.(bool), nil //nolint:forcetypeassert // the map has only bools
	}
	var doc struct {
		ID     string `json:"id"`
		Roster []struct {
			ID   string `json:"service_id"`
			Type string `json:"service_type"`
		} `json:"roster"`
	}
	if _, err := c.get(ctx, p, p.circuitURL, &doc, ""); err != nil {
		return false, err
	}
	own, others := false, 0
	for _, s := range doc.Roster {
		switch {
		case s.Type != "scabbard":
		case p.circuit+"::"+s.ID == string(p.id):
			own = true
		default:
			others++
		}
	}
	if doc.ID != p.circuit || !own {
		return false, &dlt.Error{Op: opState, Message: "an answer about another circuit"}
	}
	c.circuits.Store(key, others > 0)
	return others > 0, nil
}
