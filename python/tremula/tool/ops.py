"""python -m tremula.tool.ops: the TensorFlow ops of the IPU device, with their types."""

from tremula import tool


def main():
    with tool.complaining():
        tool.need_tensorflow()
        from tremula.tf import runtime
        table = runtime.supported_ops()
        for op, attributes in table.items():
            types = "  ".join(f"{attribute}={','.join(names)}"
                              for attribute, names in attributes.items())
            print(f"{op:40} {types}".rstrip())


if __name__ == "__main__":
    main()
