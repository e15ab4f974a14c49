package splinter

import (
	"net/url"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
	"github.com/dltbatch/dltbatch/internal/redact"
)

// name is a service id in its parts (docs/ledgers/splinter.md#services-tokens-and-connections).
type name struct{ circuit, service string }

// parseService reads "circuit::service". The circuit is five letters or digits, a hyphen and
// five more; the service is four.
func parseService(s batch.ServiceID) (name, error) {
	circuit, service, found := strings.Cut(string(s), "::")
	left, right, hyphen := strings.Cut(circuit, "-")
	if !found || !hyphen || !alnum(left, 5) || !alnum(right, 5) || !alnum(service, 4) {
		return name{}, &batch.InputError{
			Field: "Service", Value: batch.Excerpt(string(s), 64), Want: "circuit::service, such as aaaaa-bbbbb::a000",
		}
	}
	return name{circuit: circuit, service: service}, nil
}

func alnum(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range n {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// parseNode reads a node's URL.
func parseNode(field, s string) (*url.URL, error) {
	return wire.ParseURL(field, s, "http://localhost:8080", "Options.Token and Options.Header can carry")
}

// place is a service at its node.
type place struct {
	id   batch.ServiceID
	node string // base URL, as it was given
	root *url.URL

	circuit string
	shown   string   // the part of root that may be shown
	admin   *url.URL // the node's record of the circuit
}

func (c *Client) place(service batch.ServiceID) (place, error) {
	n, err := parseService(service)
	if err != nil {
		return place{}, err
	}
	node := c.base
	if c.o.Node != nil {
		if chosen := c.o.Node(service); chosen != "" {
			node = chosen
		}
	}
	parsed, known := c.nodes.Load(node)
	if !known {
		u, err := parseNode("Options.Node", node)
		if err != nil {
			return place{}, err
		}
		parsed, _ = c.nodes.LoadOrStore(node, u)
	}
	u := parsed.(*url.URL) //nolint:forcetypeassert // nothing else is stored
	return place{
		id: service, node: node, root: u.JoinPath("scabbard", n.circuit, n.service),
		circuit: n.circuit, shown: redact.ShownURL(u) + "/scabbard/" + n.circuit + "/" + n.service,
		admin: u.JoinPath("admin", "circuits", n.circuit),
	}, nil
}
