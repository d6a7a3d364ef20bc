"""What a program of ops that are placed on an IPU without `compile` does to variables.

A plugin's kernel cannot write to a variable in all versions of TensorFlow. So the program takes the
old values and gives the new ones, and nodes of TensorFlow's read and assign the variables around
it. Inside, TensorFlow's bridge lowers the ops on variables as they are. Where the program assigns
to a variable before anything needs its value, there is no old value: the values in the program
are followed here.
"""

import heapq

from tremula.tf.runtime.clusters import placed_graph
from tremula.tf.runtime.ops import node_kinds

VALUE = 1  # the input of assignments that is no handle


class Variables:
    """The variables of a group of nodes, which are in topological order.

    order     the nodes in the order in which they act: what reads comes before what writes, where
              both can be
    old       variables whose old values the program takes, in the order in which it needs them
    written   those of them that it gives new values
    handles   {variable: (node, output), a handle of it}
    assigned  {variable: (node, output), what it is assigned in the end}, of the others
    ends      {(number of a node, output): the same}: what stands for results of nodes that are not
              part of the program
    after_writes  the numbers of the nodes that write, and of those that come after such a node
    bases     {number of a node: what it adds to}, where it adds to one of these
    """

    def __init__(self, group):
        self._members = {node.index for node in group}
        self.order = self._schedule(group)
        self.handles, self.assigned, self.ends, self.bases = {}, {}, {}, {}
        self._followed = set()
        self.old, written = [], set()
        for node in self.order:
            for i, variable in node.variables.items():
                if variable not in self.handles:
                    self.handles[variable] = node.inputs[i]
                    if node.op == node_kinds.ASSIGN:
                        self.assigned[variable] = None
                    else:
                        self.old.append(variable)
                if _writes(node):
                    written.add(variable)
        self.old.sort(key=self._first_needs().get)
        self.written = [one for one in self.old if one in written]
        self.after_writes = set()
        for node in self.order:
            self._follow(node)
            if _writes(node) or any(one.index in self.after_writes for one in node.before()):
                self.after_writes.add(node.index)

    def _schedule(self, group):
        """The order; see the class."""
        place = {node.index: i for i, node in enumerate(group)}
        missing = {node.index: len(self._before(node)) for node in group}

        def key(node):
            return _writes(node), place[node.index]

        ready = [(*key(node), node) for node in group if not missing[node.index]]
        heapq.heapify(ready)
        ordered = []
        while ready:
            node = heapq.heappop(ready)[2]
            ordered.append(node)
            for user in {user.index: user for user, _, _ in node.users
                         if user.index in self._members}.values():
                missing[user.index] -= 1
                if not missing[user.index]:
                    heapq.heappush(ready, (*key(user), user))
        return ordered

    def _first_needs(self):
        """{variable: the place in the order of the first node that needs its value}."""
        place = {node.index: i for i, node in enumerate(self.order)}
        first = {}
        for i, node in enumerate(self.order):
            users = [place[user.index] for user, _, _ in node.users
                     if not _writes(node) and user.index in place]
            for variable in node.variables.values():
                first[variable] = min(first.get(variable, len(place)), *(users or [i]))
        return first

    def _before(self, node):
        return {one.index for one in node.before() if one.index in self._members}

    def _follow(self, node):
        """Takes note of what a node does to a variable that has no old value."""
        for variable in node.variables.values():
            if variable not in self.assigned:
                continue
            self._followed.add(node.index)
            if node.op == node_kinds.ASSIGN:
                self.assigned[variable] = self.value(*node.inputs[VALUE])
            elif node.op == "ReadVariableOp":
                self.ends[node.index, 0] = self.assigned[variable]
            elif node.op in node_kinds.ADDS:
                self.bases[node.index] = self.assigned[variable]
                self.assigned[variable] = node, 0
            else:
                raise placed_graph.Unusual(
                    f"{node.name} updates a variable to which the same run assigns")

    def value(self, source, number):
        """What stands for a tensor."""
        return self.ends.get((source.index, number), (source, number))

    def is_computed(self, node):
        """Whether a node is part of the program, rather than followed here."""
        return (node.op != "NoOp" and node.index not in self._followed
                or node.index in self.bases)

    def stays(self, node):
        """Whether a node that reads may stay where it is for others than the program, because it
        has a kernel."""
        return (node.op in node_kinds.READS and not node.kind.is_program
                and not self._before(node) and node.index not in self._followed)

    def waits(self, variable):
        """The nodes outside the group that must run before a variable is read."""
        on_it = [node for node in self.order if variable in node.variables.values()]
        writes_outside = any(one.index not in self._members
                             for one in self.order[0].writers.get(variable, ()))
        outside = {}
        for node in self.order if writes_outside else on_it:
            before = list(node.before() if writes_outside else node.controls)
            for one in before:  # a constant may itself wait for the program, which has a copy
                before += one.controls if one.is_copied() else []
                if one.index not in self._members and one.op != "VarHandleOp" \
                        and not one.is_copied():
                    outside[one.index] = one
        return list(outside.values())

    def name(self, variable):
        """What TensorFlow calls a variable."""
        return variable[2].decode() if len(variable) == 3 else variable[0]

    def dtype(self, variable):
        """The number of a variable's type."""
        node = next(node for node in self.order if variable in node.variables.values())
        return dtype(node)


def _writes(node):
    return bool(node.variables) and node.op not in node_kinds.READS


def dtype(node):
    """The number of the type of the variables that a node is about."""
    return node.proto.attr["T" if "T" in node.proto.attr else "dtype"].type
