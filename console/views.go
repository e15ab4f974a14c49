package console

import "slices"

// Views returns links to lists of batches that people often need.
func (b batchesBody) Views() []formChoice {
	var states []string
	for _, s := range b.States {
		if s.On {
			states = append(states, s.Value)
		}
	}
	show := ""
	for _, s := range b.Show {
		if s.On {
			show = s.Value
		}
	}
	views := []formChoice{
		{Value: "batches", Title: "Open", On: show == "open" && states == nil},
		{Value: "batches?state=unknown", Title: "Outcome unknown", On: slices.Equal(states, []string{"unknown"})},
		{Value: "batches?state=invalid&state=rejected", Title: "Ended badly", On: slices.Equal(states, []string{"invalid", "rejected"})},
		{Value: "batches?show=quarantined", Title: "Set aside", On: show == "quarantined" && states == nil},
		{Value: "batches?show=all", Title: "All", On: show == "all" && states == nil},
	}
	for i := range views {
		views[i].On = views[i].On && b.Service == ""
	}
	return views
}
