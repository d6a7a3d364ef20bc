"""TensorFlow 2: functions as programs (docs/design/tensorflow2.md).

    hooks       where TensorFlow is changed for all that, and its inner names
    recording   what a function adds to a program while TensorFlow traces the function
    programs    a traced function -> a function that launches one program
"""
