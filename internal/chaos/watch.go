package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"ticketing/internal/chaos/history"
)

// asking is how often nodes are asked what they are.
const asking = 250 * time.Millisecond

// A watch asks the nodes for their status all the time. It reaches them from an
// address that no fault touches.
type watch struct {
	nodes []*node
	http  http.Client

	mu       sync.Mutex
	last     map[string]status // by node
	marks    map[history.Mark]bool
	lead     string // who led last, of those that said so
	term     uint64 // in which term
	changes  int    // of the leader
	ended    sync.WaitGroup
	cancel   context.CancelFunc
	onChange func(leader string, term uint64)
}

// status is what matters of what a node says at /cluster.
type status struct {
	Leader  string `json:"leader"`
	Serving bool   `json:"serving"` // it leads, and executes requests
	Term    uint64 `json:"term"`
	Applied uint64 `json:"applied"`
	Members []struct {
		Name string `json:"name"`
	} `json:"members"`
	// Hashes are of its state at some indexes.
	Hashes []struct {
		Index uint64 `json:"index"`
		Hash  string `json:"hash"`
	} `json:"hashes"`
}

func newWatch(nodes []*node) *watch {
	return &watch{
		nodes: nodes, last: map[string]status{}, marks: map[history.Mark]bool{},
		http: http.Client{Timeout: time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1}},
	}
}

func (w *watch) start() {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	for _, n := range w.nodes {
		w.ended.Go(func() {
			tick := time.NewTicker(asking)
			defer tick.Stop()
			for ctx.Err() == nil {
				w.ask(ctx, n)
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
}

func (w *watch) end() {
	w.cancel()
	w.ended.Wait()
	w.http.CloseIdleConnections()
}

// ask gets a node's status. A node that does not answer has none.
func (w *watch) ask(ctx context.Context, n *node) (status, error) {
	s, err := w.get(ctx, n)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		delete(w.last, n.name)
		return s, err
	}
	w.last[n.name] = s
	for _, p := range s.Hashes {
		w.marks[history.Mark{Node: n.name, Index: p.Index, Hash: p.Hash}] = true
	}
	if s.Serving && s.Term > w.term {
		w.lead, w.term = n.name, s.Term
		w.changes++
		if w.onChange != nil {
			w.onChange(w.lead, w.term)
		}
	}
	return s, nil
}

func (w *watch) get(ctx context.Context, n *node) (s status, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.adminAddr()+"/cluster", nil)
	if err != nil {
		return s, err
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("%s: %s", n.name, resp.Status)
	}
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// leader is who led when it was last asked, in the highest term there was.
func (w *watch) leader() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lead
}

// summary returns what was seen in all.
func (w *watch) summary() (marks []history.Mark, term uint64, changes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for m := range w.marks {
		marks = append(marks, m)
	}
	return marks, w.term, w.changes
}

// alike waits until all nodes have applied the same index, so that their states
// can be compared, and reports whether that came.
func (w *watch) alike(ctx context.Context, nodes []*node) bool {
	for ctx.Err() == nil {
		indexes := map[uint64]bool{}
		answered := 0
		for _, n := range nodes {
			if s, err := w.ask(ctx, n); err == nil {
				indexes[s.Applied] = true
				answered++
			}
		}
		if answered == len(nodes) && len(indexes) == 1 {
			return true
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return false
}
