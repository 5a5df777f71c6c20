package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"time"

	"ticketing/shard"
)

// Cluster is the node's part in a cluster, as this package sees it. The three
// changes return when they are done, an error when they are refused or fail,
// and that of ctx when it is not known what will become of them.
type Cluster interface {
	Status() ClusterStatus
	// Add takes a node in: it is given the log, and votes when it has caught up.
	Add(ctx context.Context, name, peer, client string) error
	// Remove takes a node out for good.
	Remove(ctx context.Context, name string) error
	// Transfer hands the lead to a node, or to the one best suited if name is
	// empty.
	Transfer(ctx context.Context, name string) error
}

// ErrNotLeader is wrapped by errors of changes that only the leader can make.
var ErrNotLeader = errors.New("this node is not the leader")

// ClusterStatus is what a node knows of its cluster, as JSON.
type ClusterStatus struct {
	Cluster      string `json:"cluster"`
	Node         string `json:"node"`
	Role         string `json:"role"`          // leader, follower, candidate or learner
	Serving      bool   `json:"serving"`       // leads and executes requests
	Term         uint64 `json:"term"`          // number of the present lead
	Leader       string `json:"leader"`        // name; empty: none is known
	LeaderClient string `json:"leader_client"` // where its clients connect

	Commit        uint64 `json:"commit"`         // index of the last entry known to be agreed on
	Applied       uint64 `json:"applied"`        // index of the last entry whose effect is in the state
	SnapshotIndex uint64 `json:"snapshot_index"` // of the last snapshot; the log begins behind it
	Keys          int    `json:"keys"`           // held, in the replicated state
	Token         uint64 `json:"token"`          // the last that was granted

	Members []ClusterMember `json:"members"`
	Counts  ClusterCounts   `json:"counts"`
	// Fsync is how long writes to the log took until they were on the disk.
	Fsync shard.Histogram `json:"-"`
	// Hashes are of the state at indexes that nodes have in common: where two
	// nodes have a hash for one index, it is the same.
	Hashes []StateHash `json:"hashes,omitempty"`
}

// ClusterMember is one node of the cluster.
type ClusterMember struct {
	Name     string `json:"name"`
	ID       string `json:"id"` // 16 hex digits
	Peer     string `json:"peer"`
	Client   string `json:"client"`
	Instance string `json:"instance"` // names its data directory
	Voter    bool   `json:"voter"`    // false: it still catches up
	// What the leader knows: whether it heard of the member lately, and how far
	// the member's log has come. Unknown to others.
	Active *bool   `json:"active,omitempty"`
	Match  *uint64 `json:"match,omitempty"`
}

// ClusterCounts count from the start of the process.
type ClusterCounts struct {
	Proposals uint64 `json:"proposals"` // entries this node proposed as leader
	Turns     uint64 `json:"turns"`     // turns of loops that were in them
	Reads     uint64 `json:"reads"`     // asked a majority whether it still leads
	Dropped   uint64 `json:"dropped"`   // turns that were never proposed, for the lead was lost
	Elections uint64 `json:"elections"` // won by this node
	Leaders   uint64 `json:"leaders"`   // changes of the leader it has seen
	Misfits   uint64 `json:"misfits"`   // entries that did not fit the state: defects
	Snapshots uint64 `json:"snapshots"` // written
}

// StateHash is the hash of the state after the entry at Index.
type StateHash struct {
	Index uint64 `json:"index"`
	Hash  string `json:"hash"` // 16 hex digits
}

// ClusterChange is the body of a change: which fields it has depends on the
// path.
type ClusterChange struct {
	Name   string `json:"name"`
	Peer   string `json:"peer,omitempty"`
	Client string `json:"client,omitempty"`
}

// ClusterAnswer is the answer to a change. It was done if Error is empty.
type ClusterAnswer struct {
	Error        string `json:"error,omitempty"`
	NotLeader    bool   `json:"not_leader,omitempty"` // then who is, as far as it is known
	Leader       string `json:"leader,omitempty"`
	LeaderClient string `json:"leader_client,omitempty"`
	Unknown      bool   `json:"unknown,omitempty"` // it may be done yet
}

// changeTimeout is how long an answer waits for a change, within writeTimeout.
const changeTimeout = 8 * time.Second

// maxChange is the largest body of a change.
const maxChange = 4 << 10

func (s *Server) addCluster(mux *http.ServeMux) {
	mux.HandleFunc("GET /cluster", s.handleCluster)
	for path, change := range map[string]func(context.Context, *ClusterChange) error{
		"add":      func(ctx context.Context, c *ClusterChange) error { return s.cluster.Add(ctx, c.Name, c.Peer, c.Client) },
		"remove":   func(ctx context.Context, c *ClusterChange) error { return s.cluster.Remove(ctx, c.Name) },
		"transfer": func(ctx context.Context, c *ClusterChange) error { return s.cluster.Transfer(ctx, c.Name) },
	} {
		mux.HandleFunc("POST /cluster/"+path, func(w http.ResponseWriter, r *http.Request) { s.handleChange(w, r, change) })
	}
}

func (s *Server) handleCluster(w http.ResponseWriter, _ *http.Request) {
	if s.cluster == nil {
		writeJSON(w, http.StatusNotFound, ClusterAnswer{Error: "this node is not in a cluster"})
		return
	}
	writeJSON(w, http.StatusOK, s.cluster.Status())
}

func (s *Server) handleChange(w http.ResponseWriter, r *http.Request, change func(context.Context, *ClusterChange) error) {
	code, why := mayChange(r)
	var body ClusterChange
	switch {
	case code != 0:
	case s.cluster == nil:
		code, why = http.StatusNotFound, "this node is not in a cluster"
	default:
		decoder := json.NewDecoder(io.LimitReader(r.Body, maxChange))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&body); err != nil {
			code, why = http.StatusBadRequest, "the body is no change: "+err.Error()
		}
	}
	if code != 0 {
		writeJSON(w, code, ClusterAnswer{Error: why})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), changeTimeout)
	defer cancel()
	err := change(ctx, &body)
	s.log.Info("change of the cluster", "change", r.URL.Path, "name", body.Name, "peer", body.Peer, "client", body.Client,
		"from", r.RemoteAddr, "error", err)
	code, answer := s.outcome(err)
	writeJSON(w, code, answer)
}

func (s *Server) outcome(err error) (int, ClusterAnswer) {
	switch {
	case err == nil:
		return http.StatusOK, ClusterAnswer{}
	case errors.Is(err, ErrNotLeader):
		status := s.cluster.Status()
		return http.StatusConflict, ClusterAnswer{
			Error: err.Error(), NotLeader: true, Leader: status.Leader, LeaderClient: status.LeaderClient,
		}
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		return http.StatusGatewayTimeout, ClusterAnswer{
			Error: fmt.Sprintf("not known to be done after %v; it may be yet: look at the status", changeTimeout), Unknown: true,
		}
	}
	return http.StatusConflict, ClusterAnswer{Error: err.Error()}
}

// mayChange reports why a request must not change anything; code 0: it may. The
// endpoint knows no password, so a change is taken from this machine alone, not
// through a proxy that speaks for others, and not from a web page that a
// browser on this machine has open.
func mayChange(r *http.Request) (code int, why string) {
	for _, name := range []string{"Origin", "Sec-Fetch-Site", "Forwarded", "X-Forwarded-For", "Via"} {
		if r.Header.Get(name) != "" {
			return http.StatusForbidden, "changes are not taken from browsers and proxies: use ticketing cluster on this node's machine"
		}
	}
	if !fromThisMachine(r) {
		return http.StatusForbidden, "changes are taken from this node's own machine only: use ticketing cluster there"
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return http.StatusUnsupportedMediaType, "a change is application/json"
	}
	return 0, ""
}

// fromThisMachine reports whether both ends of the connection have the same
// address, or are loopback.
func fromThisMachine(r *http.Request) bool {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	if remote.Addr().Unmap().IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap() == remote.Addr().Unmap()
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // the types hold nothing that cannot be encoded
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	w.Write(append(body, '\n'))
}
