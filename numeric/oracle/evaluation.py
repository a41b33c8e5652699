"""One evaluation of a program: inputs in, definitions forward, the chain rule back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from numeric.oracle.calls import Arrays, Call
from numeric.oracle.labelled import Host, Labels
from numeric.oracle.machine import Machine
from numeric.oracle.plan import Plan
from numeric.oracle.terms import Term


@dataclass(frozen=True)
class Asked:
    """What is evaluated: a plan, a call's inputs, cotangents of outputs, and parameters."""

    plan: Plan
    call: Call
    cotangents: Arrays
    parameters: Mapping[str, Any]

    def machine(self, kind: Any, made: type[Machine] = Machine, tangents: Arrays | None = None) -> Machine:
        """A machine that holds the inputs in a kind of numbers, moving at given rates."""
        machine = made(self.plan, kind, self.call.sizes, self.parameters)
        for given in self.plan.program.inputs:
            if given.tensor.discrete:
                machine.integers[given.name] = self.call.integer(given)
            elif given.name not in self.call.inputs:
                machine.tensors[given.name] = Term(kind.given(np.asarray(float(given.neutral or 0)), ()), given=True)
            else:
                data, labels = self.call.labelled(given)
                if tangents is not None and given.name in tangents:
                    array = kind.along(data, labels, self.call.like(given, tangents[given.name])[0])
                else:
                    array = kind.rounded(kind.given(data, labels), "input")
                machine.tensors[given.name] = Term(array, given=True)
        return machine

    def evaluated(self, kind: Any, made: type[Machine] = Machine) -> Machine:
        """Both passes."""
        machine = self.machine(kind, made)
        machine.forward()
        if self.cotangents:
            machine.backward(self.seeds(kind))
        return machine

    def seeds(self, kind: Any) -> dict[str, Term]:
        """The cotangents that are given."""
        found = {}
        for name, array in self.cotangents.items():
            data, labels = self.call.cotangent(self.plan.program.output(name), np.asarray(array))
            found[name] = Term(kind.given(data, labels), given=True)
        return found


class Reader:
    """Reads results off a machine as arrays of the caller's shapes; ``part`` takes the numbers of a kind's array."""

    def __init__(self, asked: Asked, machine: Machine, part: Any, before: Labels = ()) -> None:
        self.asked, self.machine, self.part, self.before = asked, machine, part, before
        self.sizes = machine.sizes

    def outputs(self) -> dict[str, Host]:
        """Outputs by name."""
        call, found = self.asked.call, {}
        for output in call.program.outputs:
            data, labels = self.part(self._defined(output.name))
            found[output.name] = call.as_output(output, data, labels, self.sizes, self.before)
        return found

    def definitions(self) -> dict[str, Host]:
        """The values of all definitions, every axis by itself."""
        call, found = self.asked.call, {}
        for definition in call.program.definitions:
            data, labels = self.part(self._defined(definition.name))
            found[definition.name] = call.as_tensor(definition.axes, data, labels, self.sizes, self.before)
        return found

    def gradients(self) -> dict[str, Host]:
        """The gradients of the differentiable inputs that are given."""
        call, kind, found = self.asked.call, self.machine.kind, {}
        for given in call.program.inputs:
            if given.differentiable and given.name in call.inputs:
                term = self.machine.cotangents.get(given.name)
                array = kind.given(np.zeros(()), ()) if term is None else term.array
                over = call.repeated(given, array.labels)
                data, labels = self.part(kind.contract([array], over, self.sizes) if over else array)
                found[given.name] = call.as_gradient(given, data, labels, self.sizes, self.before)
        return found

    def cotangents(self) -> dict[str, Host]:
        """The cotangents of all definitions that have one."""
        call, kind, found = self.asked.call, self.machine.kind, {}
        for definition in call.program.definitions:
            if definition.target.tensor.discrete:
                continue
            term = self.machine.cotangents.get(definition.name)
            data, labels = self.part(kind.given(np.zeros(()), ()) if term is None else term.array)
            found[definition.name] = call.as_tensor(definition.axes, data, labels, self.sizes, self.before)
        return found

    def _defined(self, name: str) -> Any:
        if name in self.machine.integers:
            found = self.machine.integers[name]
            return self.machine.kind.given(found.top, found.labels)
        return self.machine.tensors[name].array
