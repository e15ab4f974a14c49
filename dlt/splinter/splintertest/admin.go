package splintertest

import (
	"net/http"
	"strconv"
)

// OpCircuit is the query for a circuit's services. It only needs authorization.
const OpCircuit Operation = "circuit"

// serveCircuit serves GET /admin/circuits/{circuit}: its services.
func (v *node) serveCircuit(w http.ResponseWriter, r *http.Request) {
	if !v.isAuthorized(r.Header.Get("Authorization"), OpCircuit) {
		v.send(w, r, errorAnswer(http.StatusUnauthorized, "Client is not authorized"), Fault{})
		return
	}
	id := r.PathValue("circuit")
	roster, members := []any{}, []string{}
	for _, s := range v.services {
		if s.Circuit.ID != id {
			continue
		}
		at := ""
		for i, n := range v.nodes {
			if n == s.node {
				at = "node-" + strconv.Itoa(i)
			}
		}
		members = append(members, at)
		roster = append(roster, map[string]any{
			"service_id": s.id, "service_type": "scabbard", "allowed_nodes": []string{at}, "arguments": map[string]string{},
		})
	}
	if len(roster) == 0 {
		v.send(w, r, errorAnswer(http.StatusNotFound, "Unable to find circuit: "+id), Fault{})
		return
	}
	v.send(w, r, jsonAnswer(http.StatusOK, map[string]any{
		"id": id, "members": members, "roster": roster, "management_type": "",
	}), Fault{})
}
