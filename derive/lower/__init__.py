"""Lowering: from definitions to array operations. A schedule may order and name; it may not change the algebra."""

from derive.lower.arrays import Node, operations
from derive.lower.cost import KernelCost, cost
from derive.lower.dense import Kernel, Statement, dense
from derive.lower.tensorise import Layout, tensorise

__all__ = ["Kernel", "KernelCost", "Layout", "Node", "Statement", "cost", "dense", "operations", "tensorise"]
